#include "src/build/simt/ptx/assembler/assemble.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>
#include <system_error>
#include <utility>

#include "src/base/check.h"
#include "src/base/files.h"
#include "src/base/message.h"
#include "src/build/simt/ptx/assembler/ptxas_report.h"
#include "src/build/run_program.h"

namespace lw {
namespace {

namespace fs = std::filesystem;

// A tool of NVIDIA's, and the environment's variable that names another one.
struct NvidiaTool {
  const char* name;
  const char* variable;
};
constexpr NvidiaTool kPtxas{"ptxas", "LOOPWRIGHT_PTXAS"};
constexpr NvidiaTool kNvdisasm{"nvdisasm", "LOOPWRIGHT_NVDISASM"};

std::string environment_word(const char* name) {
  const char* value = getenv(name);
  return value == nullptr ? "" : value;
}

// Where one may be, the best first.
std::vector<fs::path> tool_folders() {
  std::vector<fs::path> folders;
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (!error) folders.push_back(program.parent_path() / "deps/nvidia/bin");
#ifdef LOOPWRIGHT_DEPS
  folders.push_back(fs::path(LOOPWRIGHT_DEPS) / "nvidia/bin");
#endif
  const std::string cuda = environment_word("CUDA_HOME");
  if (!cuda.empty()) folders.push_back(fs::path(cuda) / "bin");
  const std::vector<std::string> of_path = program_folders();
  folders.insert(folders.end(), of_path.begin(), of_path.end());
  return folders;
}

absl::StatusOr<std::string> find_tool(const NvidiaTool& tool) {
  std::error_code error;
  const std::string named = environment_word(tool.variable);
  if (!named.empty()) {
    if (is_program(named)) return fs::absolute(named, error).string();
    return absl::UnavailableError(
        concat(tool.variable, " names '", named, "', which is no program"));
  }
  for (const fs::path& folder : tool_folders()) {
    if (is_program(folder / tool.name)) return fs::absolute(folder / tool.name, error).string();
  }
  return absl::UnavailableError(
      concat("there is no ", tool.name, ": ./setup fetches it, or ", tool.variable,
             " names one, or CUDA_HOME a CUDA toolkit, or the PATH has it"));
}

// A folder that nobody else reads, gone with this object.
class PrivateFolder {
 public:
  static absl::StatusOr<PrivateFolder> make() {
    const std::string parent = environment_word("TMPDIR");
    std::string name = concat(parent.empty() ? "/tmp" : parent, "/loopwright_ptx_XXXXXX");
    if (mkdtemp(name.data()) == nullptr) {
      return absl::UnavailableError(
          concat("cannot make a folder like ", name, ": TMPDIR can name a place for it"));
    }
    std::error_code error;
    return PrivateFolder(fs::absolute(name, error).string());
  }
  PrivateFolder(PrivateFolder&& other) noexcept { path_.swap(other.path_); }
  ~PrivateFolder() {
    std::error_code error;
    if (!path_.empty()) fs::remove_all(path_, error);
  }
  const std::string& path() const { return path_; }
  std::string file(std::string_view name) const { return concat(path_, "/", name); }

 private:
  explicit PrivateFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// "13.0.88" of "Cuda compilation tools, release 13.0, V13.0.88".
absl::StatusOr<std::string> asked_version(const std::string& ptxas) {
  ASSIGN_OR_RETURN(const ProgramEnd end, run_program({ptxas, "--version"}, "/", kAssembleLimit));
  const std::string before = ", V";
  const size_t at = end.output.find(before);
  if (!end.succeeded() || at == end.output.npos) {
    return absl::UnavailableError(concat(ptxas, " does not say its version (", end.how(),
                                         "): is it NVIDIA's, for this machine?"));
  }
  const size_t begin = at + before.size();
  return end.output.substr(begin, end.output.find_first_not_of("0123456789.", begin) - begin);
}

absl::StatusOr<std::string> version_of(const std::string& ptxas) {
  static std::mutex mutex;
  static std::map<std::string, absl::StatusOr<std::string>> known;
  // Also while it is asked: that once is enough.
  const std::lock_guard<std::mutex> lock(mutex);
  auto found = known.find(ptxas);
  if (found == known.end()) found = known.emplace(ptxas, asked_version(ptxas)).first;
  return found->second;
}

// Without the folder of the day in its messages.
absl::StatusOr<ProgramEnd> run_tool(const PrivateFolder& folder,
                                    const std::vector<std::string>& words, double limit_s) {
  ASSIGN_OR_RETURN(ProgramEnd end, run_program(words, folder.path(), limit_s));
  if (!WIFSIGNALED(end.status)) return end;
  const std::string died = concat(words[0], " died (", end.how(), ")");
  // SIGKILL is the system's, or an operator's; others come from what it was given.
  if (WTERMSIG(end.status) == SIGKILL) return absl::UnavailableError(died);
  return absl::InternalError(died);
}

}  // namespace

absl::StatusOr<std::string> find_ptxas() { return find_tool(kPtxas); }
absl::StatusOr<std::string> find_nvdisasm() { return find_tool(kNvdisasm); }

std::string ptxas_version() {
  const absl::StatusOr<std::string> ptxas = find_ptxas();
  return ptxas.ok() ? version_of(*ptxas).value_or("") : "";
}

absl::StatusOr<Assembled> assemble(std::string_view ptx, std::string_view sm, double limit_s) {
  ASSIGN_OR_RETURN(const std::string ptxas, find_ptxas());
  Assembled assembled;
  ASSIGN_OR_RETURN(assembled.version, version_of(ptxas));
  ASSIGN_OR_RETURN(const PrivateFolder folder, PrivateFolder::make());
  RETURN_IF_ERROR(write_file(folder.file("kernel.ptx"), ptx));
  // These words are in the cubin, without the files' names.
  ASSIGN_OR_RETURN(const ProgramEnd end,
                   run_tool(folder, {ptxas, "-v", concat("-arch=", sm), "kernel.ptx", "-o",
                                     "kernel.cubin"}, limit_s));
  if (!end.succeeded()) return refusal(end.errors, ptx);
  ASSIGN_OR_RETURN(assembled.facts, assembled_facts(end.errors, ptx));
  absl::StatusOr<std::string> cubin = read_file(folder.file("kernel.cubin"));
  if (!cubin.ok()) return absl::InternalError(concat(ptxas, " has made no cubin"));
  assembled.cubin = *std::move(cubin);
  return assembled;
}

absl::StatusOr<std::string> disassemble(std::string_view cubin, double limit_s) {
  ASSIGN_OR_RETURN(const std::string nvdisasm, find_nvdisasm());
  ASSIGN_OR_RETURN(const PrivateFolder folder, PrivateFolder::make());
  RETURN_IF_ERROR(write_file(folder.file("kernel.cubin"), cubin));
  ASSIGN_OR_RETURN(ProgramEnd end, run_tool(folder, {nvdisasm, "-c", "kernel.cubin"}, limit_s));
  if (end.succeeded()) return std::move(end.output);
  return absl::InvalidArgumentError(
      concat("nvdisasm takes no such cubin (", end.how(), "): ", end.errors.substr(0, 500)));
}

}  // namespace lw
