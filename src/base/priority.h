// Which threads of this process give way to which, where all processors are busy.
#pragma once

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace lw {

// From now on this thread, and what threads it starts, give way as a process of this niceness would
// (Linux has one for each thread). They never get back in front; what fails changes nothing.
inline void give_way(int niceness) {
  setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), niceness);
}

// A compiler waits for a look-up, a person for a page, nobody for a search in particular.
inline constexpr int kReadsGiveWay = 3, kSearchGivesWay = 5;

}  // namespace lw
