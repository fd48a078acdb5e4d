#include "src/cli/interrupt.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>

#include "src/base/clock.h"
#include "src/cli/exit.h"

namespace lw {
namespace {

std::atomic<int> signals{0}, allowed{1}, last_resort_s{0};
static_assert(std::atomic<int>::is_always_lock_free);
pid_t main_process = 0;

// Workers inherit the handlers but not the duty: they end with their parent.
void on_signal(int) {
  if (getpid() != main_process) return;
  const int before = signals.fetch_add(1);
  if (before >= allowed) _exit(kInterrupted);
  if (before == 0 && last_resort_s > 0) alarm(static_cast<unsigned>(last_resort_s.load()));
}

void on_alarm(int) {
  constexpr char kText[] = "interrupted: ended at once, as nothing else would end it\n";
  const ssize_t written = write(STDERR_FILENO, kText, sizeof(kText) - 1);
  static_cast<void>(written);
  _exit(kInterrupted);
}

void on_abort(int signal_number) {
  if (getpid() == main_process) _exit(kOurBug);
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

void handle(int signal_number, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;            // the store's writes are not to be cut short
  sigaction(signal_number, &action, nullptr);
}

// Age of this process when this file's statics were initialized: field 22 of /proc/self/stat is
// when it was started, in ticks since boot.
double age_now() {
  std::FILE* file = std::fopen("/proc/self/stat", "r");
  if (file == nullptr) return 0;
  char text[1024];
  const size_t size = std::fread(text, 1, sizeof(text) - 1, file);
  std::fclose(file);
  text[size] = 0;
  const char* at = std::strrchr(text, ')');
  for (int field = 2; at != nullptr && field < 22; ++field) at = std::strchr(at + 1, ' ');
  if (at == nullptr) return 0;
  timespec boot{};
  clock_gettime(CLOCK_BOOTTIME, &boot);
  const double started = std::atof(at) / static_cast<double>(sysconf(_SC_CLK_TCK));
  const double age =
      static_cast<double>(boot.tv_sec) + 1e-9 * static_cast<double>(boot.tv_nsec) - started;
  return age < 0 || age > 60 ? 0 : age;    // a container's boot time may not be ours
}

const double birth = now() - age_now();

}  // namespace

void watch_interrupts(int patience, int at_most_s) {
  allowed = patience;
  last_resort_s = at_most_s;
  main_process = getpid();
  if (at_most_s > 0) handle(SIGALRM, on_alarm);
  for (int s : {SIGINT, SIGTERM, SIGHUP}) handle(s, on_signal);
}

bool interrupted() { return signals.load() > 0; }
int interrupts() { return signals.load(); }

void exit_on_abort() {
  main_process = getpid();
  handle(SIGABRT, on_abort);
}

double process_seconds() { return now() - birth; }

}  // namespace lw
