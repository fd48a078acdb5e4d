#include "src/measure/simt/kernel_cache.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "src/base/message.h"

namespace lw {
namespace {

namespace fs = std::filesystem;

constexpr char kVariable[] = "POCL_CACHE_DIR";

// Of whose lock nobody is the holder any more. The name is of this user alone: what others have put
// there is not opened.
void sweep_kernel_caches(const fs::path& parent, const std::string& prefix) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(parent, error)) {
    if (!entry.path().filename().string().starts_with(prefix)) continue;
    struct stat facts {};
    if (lstat(entry.path().c_str(), &facts) != 0 || !S_ISDIR(facts.st_mode) ||
        facts.st_uid != geteuid()) {
      continue;
    }
    const int lock = open((entry.path() / "lock").c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (lock < 0) continue;                // just being made
    std::error_code ignored;
    if (flock(lock, LOCK_EX | LOCK_NB) == 0) fs::remove_all(entry.path(), ignored);
    close(lock);
  }
}

}  // namespace

std::shared_ptr<const KernelCache> KernelCache::create() {
  std::shared_ptr<KernelCache> cache(new KernelCache());
  std::error_code error;
  const fs::path parent = fs::temp_directory_path(error);
  if (error || getenv(kVariable) != nullptr) return cache;
  const std::string prefix = concat("loopwright-pocl-", geteuid(), "-");
  sweep_kernel_caches(parent, prefix);
  // Under a name that nobody sweeps until it is locked.
  std::string folder = (parent / "loopwright-new-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return cache;
  cache->folder_ = folder;
  cache->lock_ = open((folder + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  const fs::path named = parent / concat(prefix, folder.substr(folder.size() - 6));
  if (cache->lock_ < 0 || flock(cache->lock_, LOCK_EX | LOCK_NB) != 0) return cache;
  fs::rename(folder, named, error);
  if (!error) cache->folder_ = named.string();
  return cache;
}

KernelCache::~KernelCache() {
  std::error_code ignored;
  if (!folder_.empty()) fs::remove_all(folder_, ignored);
  if (lock_ >= 0) close(lock_);
}

void KernelCache::use() const {
  if (!folder_.empty()) setenv(kVariable, folder_.c_str(), 1);
}

void give_cache_folder() {
  const char* const home = getenv("HOME");
  if (getenv(kVariable) != nullptr || getenv("XDG_CACHE_HOME") != nullptr) return;
  if (home != nullptr && access(home, W_OK | X_OK) == 0) return;
  static const std::shared_ptr<const KernelCache> own = KernelCache::create();
  own->use();
}

}  // namespace lw
