// The check that checked() (loopwright/kernel.h) makes of kernels that nobody has verified, before
// they run here or are given away: in a worker process (measure/local.h), judged by the oracles
// that judge candidates.
#pragma once

#include "absl/status/status.h"

namespace lw {

class Task;
struct Choice;

// OK: it ran, and both oracles agreed with it. kAborted says what it did instead; kNotFound: nothing
// here can run it (find_device); kUnavailable: the machine was disturbed; others as make_measurer's.
// The calling thread must not be one of many.
absl::Status check_in_worker(const Task& task, const Choice& choice);

}  // namespace lw
