// A server, asked through a library that is loaded when somebody names one: nobody else pays for
// gRPC, which takes tens of megabytes.
#include "src/client/server_source.h"

#include <dlfcn.h>

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>

#include "src/base/check.h"
#include "src/base/message.h"
#include "src/embedded/remote_library.h"

namespace lw {
namespace {

// Beside the library (or program) that this code is in, else where the loader looks. It stays.
absl::StatusOr<void*> load_remote() {
  Dl_info here = {};
  std::string beside;
  if (dladdr(reinterpret_cast<const void*>(&open_server_source), &here) != 0 &&
      here.dli_fname != nullptr) {
    beside = (std::filesystem::path(here.dli_fname).parent_path() / kRemoteLibrary).string();
    std::error_code ignored;
    if (!std::filesystem::exists(beside, ignored)) beside.clear();
  }
  const std::string& name = beside.empty() ? kRemoteLibrary : beside;
  if (void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL); library != nullptr) {
    return library;
  }
  const char* why = dlerror();
  return absl::UnavailableError(
      concat("a server is asked through ", kRemoteLibrary, ", which cannot be loaded: ", why,
             "; put it beside libloopwright.so, or do without a server"));
}

template <class Function>
absl::StatusOr<Function*> find_function(void* library, const char* name) {
  if (void* found = dlsym(library, name); found != nullptr) {
    return reinterpret_cast<Function*>(found);
  }
  return absl::UnavailableError(concat(kRemoteLibrary, " is not Loopwright's: it has no ", name));
}

}  // namespace

absl::StatusOr<std::shared_ptr<ScheduleSource>> open_server_source(const NamedServer& server) {
  ASSIGN_OR_RETURN(void* const library, load_remote());
  ASSIGN_OR_RETURN(RemoteVersion* const version,
                   find_function<RemoteVersion>(library, "loopwright_remote_version"));
  if (std::string_view(version()) != LOOPWRIGHT_VERSION) {
    return absl::UnavailableError(concat(kRemoteLibrary, " is of version ", version(),
                                         ", libloopwright.so of ", LOOPWRIGHT_VERSION,
                                         ": install both of one"));
  }
  ASSIGN_OR_RETURN(RemoteOpen* const open,
                   find_function<RemoteOpen>(library, "loopwright_remote_open"));
  ServerSource source = absl::UnknownError("");
  open(server, &source);
  return source;
}

}  // namespace lw
