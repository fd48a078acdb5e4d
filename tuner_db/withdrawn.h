// Rows of the table `withdrawn` (schema_2.sql), and what follows from them. All REQUIRE: inside a transaction.
#pragma once

#include <string>
#include <vector>

#include "tuner_db/database.h"
#include "tuner_db/store.h"

namespace lw {

// Adds the row, or replaces its reason, evidence, actor and time.
absl::Status put_withdrawal(Database& database, const Withdrawal& withdrawal);
// kNotFound: it is not there.
absl::Status delete_withdrawal(Database& database, const Key& key, const std::string& trace);
// Of one key, or (nullptr) all; the latest first.
absl::Status read_withdrawn(Database& database, const Key* key, std::vector<Withdrawal>* rows);
// Whether the row of `candidates` with this id is withdrawn.
absl::StatusOr<bool> is_withdrawn(Database& database, int64_t candidate);

// For both stores' messages. kNotFound.
absl::Status no_such_trace(const Key& key);
absl::Status not_withdrawn(const Key& key);

}  // namespace lw
