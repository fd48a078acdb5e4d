#include "src/build/build.h"

#include "src/build/interpreter.h"
#include "src/build/llvm_backend.h"

namespace lw {
namespace {

struct Family {
  std::string_view name;
  const Backend& (*backend)();
  absl::StatusOr<std::unique_ptr<Loaded>> (*load)(const Artifact& artifact);
};

constexpr Family kFamilies[] = {
    {"aarch64", llvm_backend, load_object},
    {"interpreter", interpreter_backend, load_interpreted},
    {"x86_64", llvm_backend, load_object},
};

absl::StatusOr<const Family*> find_family(std::string_view name) {
  std::string known;
  for (const Family& family : kFamilies) {
    if (family.name == name) return &family;
    known += (known.empty() ? "" : ", ") + std::string(family.name);
  }
  return absl::NotFoundError("no backend for '" + std::string(name) + "'; there are " + known);
}

}  // namespace

absl::StatusOr<const Backend*> find_backend(std::string_view family) {
  absl::StatusOr<const Family*> found = find_family(family);
  if (!found.ok()) return found.status();
  return &(*found)->backend();
}

absl::StatusOr<std::unique_ptr<Loaded>> load(const Artifact& artifact) {
  absl::StatusOr<const Family*> found = find_family(artifact.family);
  if (!found.ok()) return found.status();
  return (*found)->load(artifact);
}

}  // namespace lw
