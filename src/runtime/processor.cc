#include "src/runtime/processor.h"

#include <algorithm>

#include "src/runtime/cpu_features.h"

namespace lw {
namespace {

std::vector<std::string> detect() {
#if defined(__x86_64__)
  std::vector<std::string> features;
  for (const lw_cpu_feature& feature : lw_cpu_features) {
    if (lw_has(&feature)) features.emplace_back(feature.name);
  }
  std::sort(features.begin(), features.end());
  return features;
#else
  return {"fp-armv8", "neon"};
#endif
}

}  // namespace

const std::vector<std::string>& processor_features() {
  static const std::vector<std::string>* features = new std::vector<std::string>(detect());
  return *features;
}

std::string missing_of(std::string_view wanted) {
  const std::vector<std::string>& present = processor_features();
  while (!wanted.empty()) {
    const size_t end = std::min(wanted.find(' '), wanted.size());
    const std::string name(wanted.substr(0, end));
    wanted.remove_prefix(std::min(end + 1, wanted.size()));
    if (!name.empty() && !std::binary_search(present.begin(), present.end(), name)) return name;
  }
  return "";
}

}  // namespace lw
