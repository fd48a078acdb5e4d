// Opening a database: it is connected, and what earlier versions wrote goes by today's names.
#include "src/base/check.h"
#include "tuner_db/sql/database.h"
#include "tuner_db/tables/identities.h"

namespace lw {
namespace {

absl::StatusOr<std::shared_ptr<Database>> adopted(
    absl::StatusOr<std::shared_ptr<Database>> database, const DatabaseOptions& options) {
  if (database.ok() && !options.read_only) {
    RETURN_IF_ERROR(adopt_identities(**database, options.patience_s));
  }
  return database;
}

}  // namespace

absl::StatusOr<std::shared_ptr<Database>> open_sqlite(const std::string& path,
                                                      const DatabaseOptions& options) {
  return adopted(connect_sqlite(path, options), options);
}

absl::StatusOr<std::shared_ptr<Database>> open_database_by(Connect* postgres,
                                                           const std::string& url,
                                                           const DatabaseOptions& options) {
  RETURN_IF_ERROR(check_database_url(url));
  return adopted(is_postgres_url(url) ? postgres(url, options) : connect_sqlite(url, options),
                 options);
}

absl::StatusOr<std::unique_ptr<Store>> open_sqlite_store(const std::string& path,
                                                         const DatabaseOptions& options) {
  ASSIGN_OR_RETURN(std::shared_ptr<Database> database, open_sqlite(path, options));
  return make_store(std::move(database), options);
}

}  // namespace lw
