#include "src/runtime/kernel_library.h"

#include <dlfcn.h>

namespace lw {
namespace {

std::string loader_says() {
  const char* text = dlerror();
  return text == nullptr ? "the loader says nothing" : text;
}

}  // namespace

Failure load_kernel_library(const std::string& path, std::unique_ptr<KernelInstance>* instance) {
  // A plain name would be sought elsewhere.
  const std::string file = path.find('/') == std::string::npos ? "./" + path : path;
  void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return environment_failure("cannot load " + path + ": " + loader_says());
  std::shared_ptr<const void> code(handle, [](const void* open) {
    dlclose(const_cast<void*>(open));
  });
  const void* table = dlsym(handle, "loopwright_kernel");
  if (table == nullptr) {
    return bad_request(path + " holds no kernel of Loopwright: make it by `loopwright export "
                              "--shared`");
  }
  Failure failure =
      KernelInstance::create(static_cast<const lw_kernel*>(table), std::move(code), instance);
  if (!failure.ok()) failure.text = path + ": " + failure.text;
  return failure;
}

}  // namespace lw
