#include "schedules/targets/family.h"

#include <algorithm>
#include <cmath>

#include "src/base/check.h"

namespace lw {
namespace {

bool has(const TargetFamily& family, std::string_view architecture) {
  return std::find(family.architectures.begin(), family.architectures.end(), architecture) !=
         family.architectures.end();
}

}  // namespace

TargetPart::TargetPart(const TargetFamily& family)
    : family_(&family), value_(family.copy(nullptr)) {}

std::vector<PartField> TargetPart::fields() const {
  if (family_ == nullptr) return {};
  return family_->fields(const_cast<void*>(value_.get()));
}

std::vector<PartField> TargetPart::fields() {
  if (family_ == nullptr) return {};
  std::shared_ptr<void> own = family_->copy(value_.get());
  value_ = own;
  return family_->fields(own.get());
}

TargetPart make_part(std::string_view architecture,
                     absl::FunctionRef<bool(const char* field)> has_field) {
  for (const TargetFamily* family : lw_target_family_table()) {
    if (has(*family, architecture)) return TargetPart(*family);
  }
  for (const TargetFamily* family : lw_target_family_table()) {
    if (has_field(family->mark)) return TargetPart(*family);
  }
  return {};
}

std::string known_architectures() {
  std::vector<std::string_view> names;
  for (const TargetFamily* family : lw_target_family_table()) {
    names.insert(names.end(), family->architectures.begin(), family->architectures.end());
  }
  std::sort(names.begin(), names.end());
  std::string list;
  for (const std::string_view name : names) {
    list += (list.empty() ? "" : ", ") + std::string(name);
  }
  return list;
}

absl::Status check_family(const Target& target) {
  if (const TargetFamily* family = target.part.family()) {
    if (family->has_schedules) return absl::OkStatus();
    return absl::UnimplementedError("no schedules are made yet for targets of the family '" +
                                    std::string(family->name) + "', such as '" + target.name + "'");
  }
  return absl::UnimplementedError("of another version: target '" + target.name +
                                  "' is of the family '" + target.architecture +
                                  "', which this program does not understand; update it");
}

double target_distance(const Target& a, const Target& b) {
  const TargetFamily* family = a.part.family();
  return family == nullptr || family != b.part.family() ? HUGE_VAL : family->distance(a, b);
}

TargetSummary target_summary(const Target& target) {
  const TargetFamily* family = target.part.family();
  return family == nullptr ? TargetSummary() : family->summary(target);
}

std::vector<std::pair<const char*, std::string>> known_as(const Target& target) {
  const TargetFamily* family = target.part.family();
  if (family == nullptr) return {};
  return family->known_as(target);
}

bool serves(const Target& target, const char* named) {
  if (named == nullptr) return true;
  const TargetFamily* family = target.part.family();
  if (family == nullptr) return false;
  if (std::string_view(named) == kRegisterMachines) return family->registers != nullptr;
  if (std::string_view(named) == kProcessors) {
    return family->registers != nullptr && family->registers(target).processor;
  }
  return std::string_view(family->name) == named;
}

RegisterFile register_file(const Target& target) {
  CHECK(target.part.family() != nullptr && target.part.family()->registers != nullptr);
  return target.part.family()->registers(target);
}

int lanes_of(const Target& target, int element_bytes) {
  const RegisterFile file = register_file(target);
  return std::clamp(file.vector_bytes / element_bytes, 1, file.most_lanes);
}

int lanes(const Target& target, Type type) { return lanes_of(target, size_of(type)); }

double log_ratio(double a, double b) {
  return a > 0 && b > 0 ? std::abs(std::log(a / b)) : a == b ? 0 : 1;
}

}  // namespace lw
