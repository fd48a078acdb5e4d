#include "bench/plain_loops.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "bench/plain/plain.h"
#include "bench/tuner.h"
#include "src/base/check.h"
#include "src/base/hash.h"

namespace lw {
namespace {

constexpr char kCompiler[] = "clang-19";

// The compiler's path, by $PATH.
absl::StatusOr<std::string> find_compiler() {
  const char* path = std::getenv("PATH");
  const std::vector<std::string> folders = absl::StrSplit(path == nullptr ? "" : path, ':');
  for (const std::string& folder : folders) {
    const std::string file = absl::StrCat(folder, "/", kCompiler);
    if (access(file.c_str(), X_OK) == 0) return file;
  }
  return absl::NotFoundError(absl::StrCat("there is no ", kCompiler, " in $PATH"));
}

// "clang 19.1.7"
absl::StatusOr<std::string> version_of(const std::string& compiler) {
  ASSIGN_OR_RETURN(const ProcessRun run,
                   run_process({compiler, "-dumpversion"}, own_environment()));
  return absl::StrCat("clang ", run.output.substr(0, run.output.find('\n')));
}

}  // namespace

absl::StatusOr<std::vector<PlainContender>> plain_contenders(const std::string& source,
                                                             const std::vector<std::string>& words,
                                                             const std::string& folder,
                                                             void* const* arguments) {
  ASSIGN_OR_RETURN(const std::string compiler, find_compiler());
  ASSIGN_OR_RETURN(const std::string version, version_of(compiler));
  std::vector<std::string> command = {compiler, "-O3", "-march=native", "-ffast-math", "-shared",
                                      "-fPIC"};
  std::string key = source;
  for (const std::string& word : words) {
    if (word.find('=') == std::string::npos) continue;
    command.push_back("-D" + word);
    absl::StrAppend(&key, " ", word);
  }
  const std::string library =
      absl::StrCat(folder, "/plain_", absl::Hex(hash64(key)), ".so");
  for (const char* word : {"-o", library.c_str(), source.c_str(), "-lm"}) command.push_back(word);
  ASSIGN_OR_RETURN(const ProcessRun compiled, run_process(command, own_environment()));
  if (compiled.exit_code != 0)
    return absl::InternalError(absl::StrCat(kCompiler, " refused ", source));
  void* handle = dlopen(std::filesystem::absolute(library).c_str(), RTLD_NOW | RTLD_LOCAL);
  const void* loops = handle == nullptr ? nullptr : dlsym(handle, "plain_loops");
  if (loops == nullptr) return absl::InternalError(dlerror());
  std::vector<PlainContender> contenders;
  for (const auto* one = static_cast<const plain_order*>(loops); one->name != nullptr; ++one)
    contenders.push_back({version, one->name, [run = one->run, arguments] { run(arguments); }});
  return contenders;                       // the library stays loaded
}

}  // namespace lw
