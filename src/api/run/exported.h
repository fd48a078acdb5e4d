// Exported kernels, looked at again: whether their files are what they say and compute what they shall.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace lw {

// Of NAME.json: the files beside it are those that it speaks of; its program, target and trace give
// the very object again; and what it computes ran, built once more, in a worker process or an
// emulator, where both oracles agreed with it (checked.h). kInvalidArgument: the JSON is not what
// `export` writes; kUnavailable: it is not there; kDataLoss: a file is another; kFailedPrecondition:
// another version of the code generator made it; kNotFound: nothing here can run it; kAborted: it is
// wrong; others as check_in_worker's. The calling thread must not be one of many.
absl::Status verify_exported(const std::string& path);

}  // namespace lw
