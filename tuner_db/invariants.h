// What must hold for every row, whoever wrote it: stores refuse rows that break it, `check` reports
// stored ones, `import` trusts no line without it; and the errors that both stores share. Pure
// functions.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "tuner_db/record.h"
#include "tuner_db/store.h"

namespace lw {

// "" when all is well, else the first thing that is wrong, as a phrase: "time_us is negative".
std::string defect(const Key& key);
// 64 hex digits.
bool is_digest(std::string_view id);
// What no version writes: such a key never has a record. Files of versions to come may hold others,
// so that is no defect.
std::string unknown_word(const Key& key);
std::string defect(const Measurement& measurement);
std::string defect(const WorkloadRow& row);                        // the id included
std::string defect(const ScheduleRecord& record);                  // of a peer; traces unparsed
std::string target_defect(const std::string& id, std::string_view text);
std::string trace_defect(const std::string& trace);

// The checks of append(): kInvalidArgument naming the key or the measurement's position. An unknown
// error magnitude (NaN) is stored as an infinite one, because databases have no NaN.
absl::Status admit(const Key& key, std::vector<Measurement>& measurements);

// "matmul's first 12 digits @ target's, llvm 19.1.7 r1, 2 threads, warm, time": for messages.
std::string describe(const Key& key);

absl::Status unknown(std::string_view what, std::string_view id);   // kNotFound
absl::Status no_result(const Key& key);                             // kNotFound
absl::Status claimed(const Key& key, int64_t pid);                  // kAlreadyExists

}  // namespace lw
