// What studies hold of a key whose best was found to be none.
#pragma once

#include "absl/status/status.h"
#include "src/serve/queue/leases.h"
#include "tuner_db/sql/database.h"
#include "tuner_db/store.h"

namespace lw {

// After a withdrawal or an annulment: the best of no study of the key is better than what is given
// out for it (of times of that kind), and those that run begin their search again from what still
// counts.
absl::Status reconsider_studies(WriteTransaction& tx, const Key& key, Changes* changes);

}  // namespace lw
