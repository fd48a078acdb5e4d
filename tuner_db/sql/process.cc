#include "tuner_db/sql/process.h"

#include <unistd.h>

#include <fstream>
#include <sstream>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace lw {
namespace {

std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

// When the process started, -1 when it is gone. /proc/PID/stat is "PID (NAME) STATE ...", where
// NAME may hold anything, so fields are counted from the last ')': the state is the 3rd, the start
// the 22nd.
int64_t start_of(int64_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/stat"));
  std::stringstream stream;
  stream << file.rdbuf();
  const std::string text = stream.str();
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return -1;
  const std::vector<std::string> fields =
      absl::StrSplit(text.substr(name_end + 1), ' ', absl::SkipEmpty());
  int64_t started = -1;
  if (fields.size() < 20 || fields[0] == "Z" || fields[0] == "X") return -1;
  if (!absl::SimpleAtoi(fields[19], &started)) return -1;
  return started;
}

}  // namespace

ProcessName this_process() { return {boot_id(), getpid(), start_of(getpid())}; }

bool is_alive(const ProcessName& process) {
  return process.boot == boot_id() && start_of(process.pid) == process.started;
}

}  // namespace lw
