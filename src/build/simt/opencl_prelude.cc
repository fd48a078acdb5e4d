#include "src/build/simt/opencl_prelude.h"

#include <algorithm>

namespace lw {

const std::string& Prelude::use(const std::string& name, const std::string& text) {
  const auto found = std::find(names_.begin(), names_.end(), name);
  if (found != names_.end()) return *found;
  text_ += text + "\n";
  names_.push_back(name);
  return names_.back();
}

void Prelude::use_has_builtin() {
  use("__has_builtin", "#ifndef __has_builtin\n#define __has_builtin(name) 0\n#endif\n");
}

}  // namespace lw
