// How much each client has the service keep: counted where rows come and go, in their transaction,
// so that a quota costs a look at one row. `db check` compares.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "tuner_db/sql/database.h"

namespace lw {

struct ClientUse {
  int64_t studies = 0, spec_bytes = 0;     // that it made, ended ones too, until their rows go
  int64_t unconfirmed = 0;                 // measurements that it put and that do not count
};

// `client`: with the role, "client/ci".
absl::StatusOr<ClientUse> client_use(Transaction& tx, std::string_view client);
// Negative where something goes.
absl::Status add_use(WriteTransaction& tx, std::string_view client, const ClientUse& more);

}  // namespace lw
