// What is stored of a workload. Its name and words are labels, for people; its program is one spelling
// of it, whose names the steps of traces use; all else follows from the canonical text, so that nobody
// who stores one has to be believed. Thread-safe; pure.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "tuner_db/store.h"

namespace lw {

struct Program;

// The row of a program; `words`: as it was asked for.
WorkloadRow workload_row(const Program& program, const std::string& words);

// What follows from a canonical text: a row without labels and program. kInvalidArgument: it is none.
// Takes about as long as parsing a program and counting its work: mostly under a millisecond, some
// tenths of a second at most.
absl::StatusOr<WorkloadRow> row_of_canonical(std::string_view canonical_text);

// The row with everything in it that follows from its canonical text as that says, whatever it said.
// kInvalidArgument: the text, the id or the program do not fit together.
absl::Status correct(WorkloadRow* row);

// What of the row is not what its canonical text says, as "its family"; "": nothing. Figures that an
// earlier version counted are not quite those of today, and outputs may stand elsewhere in its shape.
std::string contradiction(const WorkloadRow& row);

}  // namespace lw
