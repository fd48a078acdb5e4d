// A program by an array library (XLA, PyTorch) in a process of its own, bench/fused/peer.py, beside
// our kernel on the same arguments.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/expr/expr.h"
#include "src/peers/interleave.h"

namespace lw {

struct ArrayLibraryOptions {
  std::string python;                      // which has the libraries
  std::string script;                      // peer.py
  std::string folder;                      // for the inputs; must exist
  std::string isa;                         // the widest instructions it may use ("AVX2"); "": all
  std::vector<std::string> environment;    // "NAME=value" each
};

struct ArrayLibraryContender {
  std::string library, version;
  Contender contender;                     // `run` leaves the results in the arguments
};

// The program that peer.py knows by this name, compiled; the process runs where the caller may, and
// ends with the contender. `arguments`, one of each of the program's, are filled, and outlive it.
// Fails where the library does not come up within minutes, with what it said last.
absl::StatusOr<ArrayLibraryContender> array_library(const std::string& library,
                                                    const std::string& name,
                                                    const Program& program,
                                                    void* const* arguments,
                                                    const ArrayLibraryOptions& options);

}  // namespace lw
