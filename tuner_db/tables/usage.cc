#include "tuner_db/tables/usage.h"

#include "src/base/check.h"

namespace lw {

absl::StatusOr<ClientUse> client_use(Transaction& tx, std::string_view client) {
  ClientUse use;
  Query query = tx.query("SELECT studies, spec_bytes, unconfirmed FROM client_usage "
                         "WHERE client = ?", client);
  if (query.next()) use = {query.integer(0), query.integer(1), query.integer(2)};
  RETURN_IF_ERROR(query.status());
  return use;
}

absl::Status add_use(WriteTransaction& tx, std::string_view client, const ClientUse& more) {
  return tx.query(
      "INSERT INTO client_usage (client, studies, spec_bytes, unconfirmed) VALUES (?,?,?,?) "
      "ON CONFLICT (client) DO UPDATE SET studies = client_usage.studies + excluded.studies, "
      "spec_bytes = client_usage.spec_bytes + excluded.spec_bytes, "
      "unconfirmed = client_usage.unconfirmed + excluded.unconfirmed",
      client, more.studies, more.spec_bytes, more.unconfirmed).run();
}

}  // namespace lw
