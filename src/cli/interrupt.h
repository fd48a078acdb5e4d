// Ctrl-C: the first asks politely, the second ends at once. And how old this process is.
#pragma once

namespace lw {

// From here on SIGINT, SIGTERM and SIGHUP are counted; a second one exits with kInterrupted.
void watch_interrupts();
bool interrupted();

// Our bugs end with kOurBug: aborts of this process, not of its workers.
void exit_on_abort();

// Seconds since the kernel started this process, to 10 ms.
double process_seconds();

}  // namespace lw
