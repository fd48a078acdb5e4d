// Programs of OpenCL under Oclgrind, a simulator of others', which finds accesses out of bounds,
// races and barriers that not all items reach. It runs in a process of its own, for many programs.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/build/simt/program.h"
#include "src/expr/reference/interpret.h"

namespace lw {

struct OclgrindJob {
  SimtProgram code;
  std::vector<Data> in;
};

struct OclgrindResult {
  std::string report;                      // what it says; "": nothing is wrong
  std::vector<Data> out;                   // empty where it could not be run
};

// Two that write the same value to the same place race, too; but where `same_values` says that they
// may: vectors at the end of a row overlap those before them, on whoever's iteration.
// kNotFound: no Oclgrind is here.
absl::StatusOr<std::vector<OclgrindResult>> run_oclgrind(const std::vector<OclgrindJob>& jobs,
                                                         bool same_values);

}  // namespace lw
