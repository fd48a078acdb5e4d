#include "src/api/shared_library.h"

#include <stdlib.h>

#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "src/base/check.h"
#include "src/base/files.h"
#include "src/base/message.h"
#include "src/build/run_program.h"

namespace lw {
namespace {

namespace fs = std::filesystem;

constexpr double kLinkLimit = 60;          // seconds

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
    const std::string found = find_program(name);
    if (!found.empty()) return fs::absolute(found).string();
  }
  return absl::UnavailableError(concat("no linker for ", architecture, " among ",
                                       absl::StrJoin(names, ", "),
                                       ": install lld or binutils, or name one in LOOPWRIGHT_LINKER"));
}

// A compiler of C for this machine; of others who asks must name one.
absl::StatusOr<std::vector<std::string>> find_compiler(const std::string& architecture) {
  const char* named = getenv("CC");
  const std::string own = named != nullptr && *named != 0 ? named : "cc";
#if defined(__x86_64__)
  const bool is_ours = architecture == "x86_64";
#else
  const bool is_ours = architecture == "aarch64";
#endif
  const std::string name = is_ours || named != nullptr ? own : architecture + "-linux-gnu-gcc";
  std::vector<std::string> words = absl::StrSplit(name, ' ', absl::SkipEmpty());  // "ccache gcc"
  const std::string found = words.empty() ? "" : find_program(words[0]);
  if (!found.empty()) {
    words[0] = fs::absolute(found).string();
    return words;
  }
  return absl::UnavailableError(
      concat("no compiler of C for ", architecture, ": '", name, "' is not there; name one in CC"));
}

}  // namespace

absl::Status link_shared(const std::string& object, const std::string& entry,
                         const std::string& architecture, const std::string& library,
                         const std::string& stub) {
  const std::string alias = concat("--defsym=loopwright_kernel=", entry, "_kernel");
  const std::string in = fs::absolute(object).string(), out = fs::absolute(library).string();
  std::vector<std::string> words;
  const std::string source = out + ".stub.c";
  if (stub.empty()) {
    ASSIGN_OR_RETURN(const std::string linker, find_linker(architecture));
    words = {linker, "-shared", "-Bsymbolic", "-z", "noexecstack", "--build-id=none", alias,
             "-o", out, in};
  } else {
    ASSIGN_OR_RETURN(words, find_compiler(architecture));
    RETURN_IF_ERROR(write_file(source, stub));
    const std::vector<std::string> more = {"-std=gnu11", "-O2", "-fPIC", "-shared", "-w",
                                           "-Wl,-Bsymbolic", "-Wl,--build-id=none", "-Wl," + alias,
                                           "-o", out, source, in};
    words.insert(words.end(), more.begin(), more.end());
  }
  const absl::StatusOr<ProgramEnd> end = run_program(words, "/", kLinkLimit);
  std::error_code ignored;
  fs::remove(source, ignored);
  RETURN_IF_ERROR(end.status());
  if (end->succeeded()) return absl::OkStatus();
  return absl::UnavailableError(concat(words[0], " cannot link ", object, " (", end->how(), "): ",
                                       std::string(absl::StripAsciiWhitespace(end->errors))));
}

}  // namespace lw
