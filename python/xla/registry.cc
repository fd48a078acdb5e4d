#include "python/xla/registry.h"

#include <cstdio>
#include <functional>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "src/runtime/kernel_library.h"

namespace lw::xla {
namespace {

struct Registry {
  std::shared_mutex mutex;
  std::map<std::string, std::shared_ptr<const KernelInstance>, std::less<>> kernels;
};

// Never destroyed: XLA's threads may outlive the destructors of statics.
Registry& registry() {
  static Registry* only = new Registry;
  return *only;
}

}  // namespace

Failure register_library(const std::string& path) {
  std::unique_ptr<KernelInstance> instance;
  Failure failure = load_kernel_library(path, &instance);
  if (!failure.ok()) return failure;
  std::string digest = instance->kernel().digest;
  const std::unique_lock lock(registry().mutex);
  registry().kernels.emplace(std::move(digest), std::move(instance));
  return {};
}

std::shared_ptr<const KernelInstance> find_kernel(std::string_view digest) {
  const std::shared_lock lock(registry().mutex);
  const auto found = registry().kernels.find(digest);
  return found == registry().kernels.end() ? nullptr : found->second;
}

}  // namespace lw::xla

int loopwright_xla_register(const char* path, char* error, int size) {
  const lw::Failure failure = lw::xla::register_library(path);
  std::snprintf(error, static_cast<size_t>(size), "%s", failure.text.c_str());
  return static_cast<int>(failure.code);
}
