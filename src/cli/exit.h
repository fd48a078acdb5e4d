// How a command ends. A contract for scripts: never change a number.
#pragma once

namespace lw {

enum Exit : int {
  kDone = 0,
  kBadRequest = 1,
  kNothingFound = 2,                       // a look-up missed with --frozen, no device, no
                                           // schedule that can be lowered
  kNotValid = 3,                           // measured, but no candidate passed its check
  kInterrupted = 4,                        // what was measured is stored; the same command resumes
  kEnvironmentFailed = 5,                  // disk full, database locked, corrupt or newer
  kOurBug = 70,
};

}  // namespace lw
