#include "cost_model/family.h"

#include "schedules/targets/family.h"
#include "schedules/targets/target.h"
#include "src/base/check.h"
#include "src/base/hash.h"

namespace lw {
namespace cost {

const Family& find_family(std::string_view name) {
  for (const Family* family : lw_cost_family_table()) {
    if (family->name == name) return *family;
  }
  CHECK(false);
}

std::string_view family_of(std::string_view architecture) {
  for (const TargetFamily* family : lw_target_family_table()) {
    for (const char* own : family->architectures) {
      if (own == architecture) return family->name;
    }
  }
  return "cpu";
}

bool begins_shipped(std::string_view architecture) {
  return find_family(family_of(architecture)).begins_shipped;
}

}  // namespace cost

namespace {

const cost::Family& family_of(const Nest& nest) {
  return cost::find_family(nest.target->part.family()->name);
}

}  // namespace

const std::vector<Feature>& feature_table(std::string_view family) {
  return cost::find_family(family).table();
}

uint64_t feature_schema(std::string_view family) {
  uint64_t hash = 0;
  for (const Feature& feature : feature_table(family)) {
    hash = hash_combine(hash, hash64(feature.name));
    // As before there were versions.
    if (feature.version != 1) hash = hash_combine(hash, static_cast<uint64_t>(feature.version));
  }
  return hash;
}

std::vector<float> features(const Nest& nest) { return family_of(nest).features(nest); }
double draft_us(const Nest& nest) { return family_of(nest).draft_us(nest); }
uint64_t feature_kind(uint64_t hash, const Nest& nest, const std::vector<float>& features) {
  return family_of(nest).kind(hash, features);
}

}  // namespace lw
