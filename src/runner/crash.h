// How a crash is told: by the process that crashes, in a frame that was made before anything ran.
#pragma once

#include "src/runner/protocol.h"

namespace lw::runner {

// From here on a crash writes its frame, if there is one, and ends the process with status 0.
void watch_crashes();
// The frame, but for what the handler alone knows; and that there is none.
void prepare_crash_frame(Crash crash);
void forget_crash_frame();

}  // namespace lw::runner
