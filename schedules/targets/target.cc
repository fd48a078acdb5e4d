#include "schedules/targets/target.h"

#include <algorithm>
#include <cstdio>

#include "schedules/targets/family.h"
#include "schedules/targets/json_fields.h"
#include "schedules/targets/matrix_shape.h"
#include "src/base/check.h"

namespace lw {

const std::vector<std::pair<const char*, const char*>>& builtin_target_texts();

Target defaults_of(const Target& target) {
  Target defaults;
  if (const TargetFamily* family = target.part.family()) defaults.part = TargetPart(*family);
  return defaults;
}

const Atom* multiply_add(const Target& target, Type acc) {
  for (const Atom& atom : target.atoms) {
    if (atom.acc == acc && atom.group == 1 && atom.m == 0) return &atom;
  }
  return nullptr;
}

const Atom* dot_product(const Target& target, Type a, Type b, Type acc) {
  for (const Atom& atom : target.atoms) {
    const bool same = (atom.a == a && atom.b == b) || (atom.a == b && atom.b == a);
    if (same && atom.acc == acc && atom.group > 1) return &atom;
  }
  return nullptr;
}

const Atom* matrix_product(const Target& target, Type a, Type b, Type acc) {
  for (const Atom& atom : target.atoms) {
    const bool own = atom.m > 0 && atom.m < kWideRows;
    if (own && atom.a == a && atom.b == b && atom.acc == acc) return &atom;
  }
  return nullptr;
}

const Atom* wide_product(const Target& target, Type a, Type b, Type acc) {
  for (const Atom& atom : target.atoms) {
    if (atom.m == kWideRows && atom.a == a && atom.b == b && atom.acc == acc) return &atom;
  }
  return nullptr;
}

double products_of(const Atom& atom) {
  if (atom.m > 0) return static_cast<double>(atom.m) * atom.n * atom.k;
  return static_cast<double>(atom.lanes) * atom.group;
}

std::string to_text(const Target& target) { return to_json_object(target).dump(2) + "\n"; }

namespace {

TargetPart part_of(const OrderedJson& json) {
  if (!json.is_object()) return {};
  const auto family = json.find("family");
  return make_part(family != json.end() && family->is_string() ? family->get<std::string>() : "",
                   [&](const char* field) { return json.contains(field); });
}

// What every target must say and this one does not; "": nothing.
std::string omission(const Target& target) {
  if (const TargetFamily* family = target.part.family()) return family->omission(target);
  return target.architecture.empty() ? "it has no family" : "";
}

// Of all families that have some.
std::vector<const TargetFamily::Configurations*> configurations() {
  std::vector<const TargetFamily::Configurations*> all;
  for (const TargetFamily* family : lw_target_family_table()) {
    if (family->configurations != nullptr) all.push_back(family->configurations);
  }
  return all;
}

absl::StatusOr<Target> read(std::string_view text, std::string_view source, bool stored) {
  const auto in_source = [&](const std::string& what) {
    return absl::InvalidArgumentError(std::string(source) + ": " + what);
  };
  const OrderedJson json = parse_shallow(text);
  if (json.is_discarded()) return in_source("not JSON, or nested too deeply");
  if (!stored && json.is_object() && !json.contains("family")) {
    const auto has = [&](const char* field) { return json.contains(field); };
    for (const auto* others : configurations()) {
      if (others->describes(has)) return others->parse(text, source);
    }
  }
  std::string error;
  Target target;
  target.part = part_of(json);
  JsonFieldReader reader(json, "", stored, &error);
  Target::fields(target, reader);
  if (!stored && target.part.family() == nullptr && !target.architecture.empty()) {
    // Says more than that fields of its own are not known.
    error = "family '" + target.architecture + "' is none of " + known_architectures();
  }
  if (error.empty()) error = omission(target);
  if (!error.empty()) return in_source(error);
  return target;
}

void list_later(const std::string& later, const std::string& path, std::string* names) {
  const OrderedJson json = parse_shallow(later);
  if (!json.is_object()) return;
  for (const auto& [name, value] : json.items()) {
    *names += (names->empty() ? "" : ", ") + path + name;
  }
}

}  // namespace

absl::StatusOr<Target> parse_target(std::string_view text, std::string_view source) {
  return read(text, source, false);
}
absl::StatusOr<Target> read_target(std::string_view text) { return read(text, "target", true); }

Target without_part(const Target& target) {
  const OrderedJson json = to_json_object(target);
  std::string error;
  Target bare;
  JsonFieldReader reader(json, "", /*stored=*/true, &error);
  Target::fields(bare, reader);
  return bare;
}

std::string later_fields(const Target& target) {
  std::string names;
  list_later(target.later, "", &names);
  for (size_t i = 0; i < target.caches.size(); ++i) {
    list_later(target.caches[i].later, "caches[" + std::to_string(i) + "].", &names);
  }
  for (size_t i = 0; i < target.atoms.size(); ++i) {
    list_later(target.atoms[i].later, "atoms[" + std::to_string(i) + "].", &names);
  }
  return names;
}

const std::vector<Target>& builtin_targets() {
  static const std::vector<Target>* all = [] {
    auto* targets = new std::vector<Target>;
    for (const auto& [file, text] : builtin_target_texts()) {
      absl::StatusOr<Target> target = parse_target(text, file);
      if (!target.ok()) std::fprintf(stderr, "%s\n", target.status().ToString().c_str());
      CHECK(target.ok());
      targets->push_back(*std::move(target));
    }
    for (const auto* others : configurations()) {
      for (Target& target : others->builtin()) targets->push_back(std::move(target));
    }
    return targets;
  }();
  return *all;
}

namespace {

absl::StatusOr<Target> host_target() {
  absl::Status none = absl::UnimplementedError(
      "no target describes this machine; name one instead of 'host'");
  for (const TargetFamily* family : lw_target_family_table()) {
    if (family->host == nullptr) continue;
    absl::StatusOr<Target> host = family->host();
    if (host.ok()) return host;
    none = host.status();
  }
  return none;
}

}  // namespace

absl::StatusOr<Target> find_target(std::string_view name) {
  if (name == "host") return host_target();
  std::string known = "host";
  for (const Target& target : builtin_targets()) {
    if (target.name == name) return target;
    known += ", " + target.name;
  }
  for (const auto* others : configurations()) {
    absl::StatusOr<Target> target = others->find(name);
    if (!absl::IsNotFound(target.status())) return target;
  }
  return absl::NotFoundError("no target '" + std::string(name) + "'; there are " + known);
}

std::string missing_feature(const Target& code, const Target& machine) {
  if (code.architecture != machine.architecture) return code.architecture;
  for (const std::string& feature : code.features) {
    const std::vector<std::string>& have = machine.features;
    if (std::find(have.begin(), have.end(), feature) == have.end()) return feature;
  }
  return "";
}

}  // namespace lw
