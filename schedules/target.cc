#include "schedules/target.h"

#include <algorithm>
#include <cstdio>

#include "nlohmann/json.hpp"
#include "schedules/host.h"
#include "src/base/check.h"

namespace lw {

const std::vector<std::pair<const char*, const char*>>& builtin_target_texts();

namespace {

using Json = nlohmann::ordered_json;

// Fields are listed once, below, and visited by a Writer or a Reader. The Reader keeps the first
// mistake with the path of its field.
class Writer {
 public:
  template <class Value>
  void field(const char* name, const Value& value) { json_[name] = value; }
  void field(const char* name, const Type& type) { json_[name] = std::string(type_name(type)); }
  template <class Struct>
  void list(const char* name, const std::vector<Struct>& items) {
    Json array = Json::array();
    for (const Struct& item : items) {
      Writer inner;
      visit(inner, const_cast<Struct&>(item));
      array.push_back(inner.json_);
    }
    json_[name] = array;
  }
  std::string text() const { return json_.dump(2) + "\n"; }

 private:
  Json json_;
};

class Reader {
 public:
  Reader(const Json& json, std::string path, std::string* error)
      : json_(json), path_(std::move(path)), error_(error) {
    if (!json.is_object()) fail("", "must be an object");
  }

  void field(const char* name, std::string& value) {
    read(name, &Json::is_string, "a string", value);
  }
  void field(const char* name, bool& value) {
    read(name, &Json::is_boolean, "true or false", value);
  }
  void field(const char* name, double& value) {
    read(name, &Json::is_number, "a number", value);
    if (!(value >= 0 && value < 1e15)) fail(name, "is out of range");
  }
  void field(const char* name, int64_t& value) {
    read(name, &Json::is_number_integer, "an integer", value);
    if (value < 0) fail(name, "is negative");
  }
  void field(const char* name, int& value) {
    int64_t wide = 0;
    field(name, wide);
    if (wide < 1 || wide > (1 << 30)) fail(name, "is out of range");
    value = static_cast<int>(wide);
  }
  void field(const char* name, Type& value) {
    std::string text;
    field(name, text);
    if (!parse_type(text, &value)) fail(name, "is no type: '" + text + "'");
  }
  void field(const char* name, std::vector<std::string>& value) {
    const Json* found = find(name);
    if (found == nullptr) return;
    const bool strings =
        found->is_array() &&
        std::all_of(found->begin(), found->end(), [](const Json& j) { return j.is_string(); });
    if (!strings) return fail(name, "must be a list of strings");
    value = found->get<std::vector<std::string>>();
  }
  template <class Struct>
  void list(const char* name, std::vector<Struct>& items) {
    const Json* found = find(name);
    if (found == nullptr) return;
    if (!found->is_array()) return fail(name, "must be a list");
    for (size_t i = 0; i < found->size(); ++i) {
      Struct item;
      Reader inner((*found)[i], path_ + name + "[" + std::to_string(i) + "].", error_);
      visit(inner, item);
      inner.finish();
      items.push_back(item);
    }
  }

  // After all fields: what was not asked for is a misspelling.
  void finish() {
    if (!json_.is_object()) return;
    for (const auto& [name, value] : json_.items()) {
      if (std::find(seen_.begin(), seen_.end(), name) == seen_.end()) fail(name, "is no field");
    }
  }

 private:
  void fail(const std::string& name, const std::string& what) {
    if (error_->empty()) *error_ = "target: " + path_ + name + " " + what;
  }
  const Json* find(const char* name) {
    seen_.push_back(name);
    if (!json_.is_object()) return nullptr;
    const auto found = json_.find(name);
    if (found != json_.end()) return &*found;
    fail(name, "is missing");
    return nullptr;
  }
  template <class Value>
  void read(const char* name, bool (Json::*is)() const noexcept, const char* what, Value& value) {
    const Json* found = find(name);
    if (found == nullptr) return;
    if (!(found->*is)()) return fail(name, std::string("must be ") + what);
    value = found->get<Value>();
  }

  const Json& json_;
  std::string path_;
  std::string* error_;
  std::vector<std::string> seen_;
};

template <class Io>
void visit(Io& io, CacheLevel& cache) {
  io.field("name", cache.name);
  io.field("bytes", cache.bytes);
  io.field("shared", cache.shared);
  io.field("read_bytes_per_cycle", cache.read_bytes_per_cycle);
  io.field("write_bytes_per_cycle", cache.write_bytes_per_cycle);
  io.field("latency_cycles", cache.latency_cycles);
}

template <class Io>
void visit(Io& io, Atom& atom) {
  io.field("name", atom.name);
  io.field("a", atom.a);
  io.field("b", atom.b);
  io.field("acc", atom.acc);
  io.field("lanes", atom.lanes);
  io.field("group", atom.group);
  io.field("per_cycle", atom.per_cycle);
  io.field("latency", atom.latency);
}

template <class Io>
void visit(Io& io, Target& target) {
  io.field("name", target.name);
  io.field("family", target.family);
  io.field("triple", target.triple);
  io.field("cpu", target.cpu);
  io.field("features", target.features);
  io.field("vector_bytes", target.vector_bytes);
  io.field("vector_registers", target.vector_registers);
  io.field("fma", target.fma);
  io.field("masks", target.masks);
  io.field("loads_per_cycle", target.loads_per_cycle);
  io.field("stores_per_cycle", target.stores_per_cycle);
  io.field("issue_per_cycle", target.issue_per_cycle);
  io.field("ghz", target.ghz);
  io.field("cores", target.cores);
  io.field("page_bytes", target.page_bytes);
  io.field("tlb_entries", target.tlb_entries);
  io.field("parallel_overhead_us", target.parallel_overhead_us);
  io.list("caches", target.caches);
  io.list("atoms", target.atoms);
}

}  // namespace

int lanes(const Target& target, Type type) {
  return std::max(1, target.vector_bytes / size_of(type));
}

const Atom* multiply_add(const Target& target, Type acc) {
  for (const Atom& atom : target.atoms) {
    if (atom.acc == acc && atom.group == 1) return &atom;
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

std::string to_text(const Target& target) {
  Writer writer;
  visit(writer, const_cast<Target&>(target));
  return writer.text();
}

absl::StatusOr<Target> parse_target(std::string_view text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return absl::InvalidArgumentError("target: not JSON");
  std::string error;
  Target target;
  Reader reader(json, "", &error);
  visit(reader, target);
  reader.finish();
  if (error.empty() && target.caches.empty()) error = "target: caches must not be empty";
  if (error.empty() && target.atoms.empty()) error = "target: atoms must not be empty";
  if (!error.empty()) return absl::InvalidArgumentError(error);
  return target;
}

std::vector<Target> builtin_targets() {
  std::vector<Target> targets;
  for (const auto& [file, text] : builtin_target_texts()) {
    absl::StatusOr<Target> target = parse_target(text);
    if (!target.ok()) {
      std::fprintf(stderr, "%s: %s\n", file, target.status().ToString().c_str());
    }
    CHECK(target.ok());
    targets.push_back(*std::move(target));
  }
  return targets;
}

absl::StatusOr<Target> find_target(std::string_view name) {
  if (name == "host") return host_target();
  std::string known = "host";
  for (Target& target : builtin_targets()) {
    if (target.name == name) return std::move(target);
    known += ", " + target.name;
  }
  return absl::NotFoundError("no target '" + std::string(name) + "'; there are " + known);
}

std::string missing_feature(const Target& code, const Target& machine) {
  if (code.family != machine.family) return code.family;
  for (const std::string& feature : code.features) {
    const std::vector<std::string>& have = machine.features;
    if (std::find(have.begin(), have.end(), feature) == have.end()) return feature;
  }
  return "";
}

}  // namespace lw
