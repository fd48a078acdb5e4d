// Ctrl-C: the first asks politely, the second ends at once. And how old this process is.
#pragma once

namespace lw {

// From here on SIGINT, SIGTERM and SIGHUP are counted; one more than `patience` exits with
// kInterrupted, and so does whatever still runs `at_most_s` seconds after the first (0: anything
// may): what was stored is stored.
void watch_interrupts(int patience = 1, int at_most_s = 0);
bool interrupted();
int interrupts();                          // so far

// Our bugs end with kOurBug: aborts of this process, not of its workers.
void exit_on_abort();

// Seconds since the kernel started this process, to 10 ms.
double process_seconds();

}  // namespace lw
