#include "src/api/shared_library.h"

#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/build/run_program.h"

namespace lw {
namespace {

namespace fs = std::filesystem;

constexpr double kLinkLimit = 60;          // seconds

// The program as the shell would find it, or "".
std::string on_path(const std::string& name) {
  if (name.find('/') != std::string::npos) return fs::absolute(name).string();
  const char* path = getenv("PATH");
  const std::vector<std::string> folders = absl::StrSplit(path == nullptr ? "" : path, ':',
                                                          absl::SkipEmpty());
  for (const std::string& folder : folders) {
    const fs::path file = fs::path(folder) / name;
    std::error_code error;
    if (fs::is_regular_file(file, error) && access(file.c_str(), X_OK) == 0) return file.string();
  }
  return "";
}

absl::StatusOr<std::string> find_linker(const std::string& architecture) {
  const char* named = getenv("LOOPWRIGHT_LINKER");
  std::vector<std::string> names = {"ld.lld", "ld.lld-19", concat(architecture, "-linux-gnu-ld")};
  if (named != nullptr && *named != 0) {
    names = {named};
  } else {
#if defined(__x86_64__)
    if (architecture == "x86_64") names.push_back("ld");
#elif defined(__aarch64__)
    if (architecture == "aarch64") names.push_back("ld");
#endif
  }
  for (const std::string& name : names) {
    const std::string found = on_path(name);
    if (!found.empty()) return found;
  }
  return absl::UnavailableError(concat("no linker for ", architecture, " among ",
                                       absl::StrJoin(names, ", "),
                                       ": install lld or binutils, or name one in LOOPWRIGHT_LINKER"));
}

}  // namespace

absl::Status link_shared(const std::string& object, const std::string& entry,
                         const std::string& architecture, const std::string& library) {
  ASSIGN_OR_RETURN(const std::string linker, find_linker(architecture));
  ASSIGN_OR_RETURN(
      const ProgramEnd end,
      run_program({linker, "-shared", "-z", "noexecstack", "--build-id=none",
                   concat("--defsym=loopwright_kernel=", entry, "_kernel"), "-o",
                   fs::absolute(library).string(), fs::absolute(object).string()},
                  "/", kLinkLimit));
  if (end.succeeded()) return absl::OkStatus();
  return absl::UnavailableError(concat(linker, " cannot link ", object, " (", end.how(), "): ",
                                       std::string(absl::StripAsciiWhitespace(end.errors))));
}

}  // namespace lw
