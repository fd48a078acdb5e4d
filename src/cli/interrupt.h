// Ctrl-C: the first asks politely, the second ends at once. And how old this process is.
#pragma once

namespace lw {

// From here on SIGINT, SIGTERM and SIGHUP are counted; one more than `patience` exits with
// kInterrupted.
void watch_interrupts(int patience = 1);
bool interrupted();
int interrupts();                          // so far

// Our bugs end with kOurBug: aborts of this process, not of its workers.
void exit_on_abort();

// Seconds since the kernel started this process, to 10 ms.
double process_seconds();

}  // namespace lw
