// A study is deleted in two steps. It is marked, in one short transaction: from then on nobody sees
// it. Its rows go piece by piece behind whatever else is to be written, so that a study of a
// hundred thousand jobs holds up no lease. What was measured for it is of its keys, and stays; the
// text of a workload goes with its last study, if nothing was measured of it.
//
// All are re-runnable.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "tuner_db/sql/database.h"

namespace lw {

// REQUIRES: the study has ended.
absl::Status mark_deleted(WriteTransaction& tx, std::string_view study);

// Deletes at most some `most` rows of a marked study; whether that was all of it. No such study: it
// was.
absl::StatusOr<bool> delete_piece(WriteTransaction& tx, const std::string& study, int most);

// Of the study's events, the oldest go: at most `most`, and none from the one with that number on.
// How many went.
absl::StatusOr<int64_t> delete_events(WriteTransaction& tx, std::string_view study, int64_t until,
                                      int most);

}  // namespace lw
