// Rows of the table `withdrawn` (schema_2.sql), and what follows from them.
#pragma once

#include <string>
#include <vector>

#include "tuner_db/sql/database.h"
#include "tuner_db/store.h"

namespace lw {

// Store::withdraw and restore.
absl::Status withdraw_trace(WriteTransaction& tx, Withdrawal withdrawal);
absl::Status restore_trace(WriteTransaction& tx, const Key& key, const std::string& trace);

// Adds the row, or replaces its reason, evidence, actor and time, and its kernel if one is given.
absl::Status put_withdrawal(WriteTransaction& tx, const Withdrawal& withdrawal);
// kNotFound: it is not there.
absl::Status delete_withdrawal(WriteTransaction& tx, const Key& key, const std::string& trace);
// Digests of all, or of these keys' (none: of all); the latest first.
absl::Status list_withdrawn_digests(Transaction& tx, const std::vector<Key>& keys,
                                    std::vector<std::string>* digests);
// kNotFound.
absl::Status find_withdrawn(Transaction& tx, const std::string& digest, Withdrawal* row);
// Of one key, or (nullptr) all; the latest first.
absl::Status read_withdrawn(Transaction& tx, const Key* key, std::vector<Withdrawal>* rows);
// Of all; no more is read of a row.
absl::Status read_withdrawn_digests(Transaction& tx, std::vector<WithdrawnDigests>* rows);
absl::StatusOr<int64_t> read_withdrawn_revision(Transaction& tx);
// Whether the row of `candidates` with this id, whose kernel this is (0: not known), is out, by its
// trace or by its kernel.
absl::StatusOr<bool> is_withdrawn(Transaction& tx, int64_t candidate, uint64_t kernel_hash);
// Whether anything of the key with this id is withdrawn.
absl::StatusOr<bool> has_withdrawn(Transaction& tx, int64_t key);

// For both stores' messages. kNotFound.
absl::Status no_such_trace(const Key& key);
absl::Status not_withdrawn(const Key& key);

}  // namespace lw
