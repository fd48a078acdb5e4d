// One job, in a process of its own that ends with it.
#pragma once

#include <string>

#include "src/runner/protocol.h"

namespace lw::runner {

struct Answer {
  Frame type = Frame::kRefusal;
  std::string payload;
};
// Runs and, where that is asked for, times the job's code. A crash ends the process (crash.h).
Answer run_job(const Job& job);

}  // namespace lw::runner
