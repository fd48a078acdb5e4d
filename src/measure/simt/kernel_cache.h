// Where a driver keeps what it compiles. PoCL writes some 100 KB of every kernel into a folder, from
// which its next process takes what it needs: of candidates, of which there are thousands, into one
// that is gone with the measurer, since in the user's they would lie for ever. What is called by those
// who have chosen it stays where PoCL keeps it.
#pragma once

#include <memory>
#include <string>

namespace lw {

class KernelCache {
 public:
  // A folder of its own below the system's for such things, which its end removes; those that killed
  // processes have left there go first. Where none can be made, or the environment's POCL_CACHE_DIR
  // says where to keep kernels, it is the driver's own business.
  static std::shared_ptr<const KernelCache> create();
  ~KernelCache();
  KernelCache(const KernelCache&) = delete;

  // In this process, before its driver is loaded.
  void use() const;

 private:
  KernelCache() = default;

  std::string folder_;                     // "": none
  int lock_ = -1;                          // held: somebody uses it
};

// In a process that calls kernels: PoCL refuses to do without a folder, and where the user has none
// that it may write it gets one of this process.
void give_cache_folder();

}  // namespace lw
