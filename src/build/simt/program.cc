#include "src/build/simt/program.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "absl/strings/escaping.h"
#include "src/base/message.h"

namespace lw {
namespace {

using Json = nlohmann::ordered_json;
using Kind = SimtProgram::Parameter::Kind;

constexpr std::string_view kKinds[] = {"argument", "workspace", "packed"};
constexpr int kVersion = 1;

Json to_json(const SimtProgram::TensorMap& map) {
  return {{"element_bytes", map.element_bytes}, {"offset", map.offset}, {"sizes", map.sizes},
          {"strides", map.strides}, {"box", map.box}, {"swizzled", map.swizzled}};
}

Json to_json(const SimtProgram::Launch& launch) {
  Json parameters = Json::array();
  for (const SimtProgram::Parameter& parameter : launch.parameters) {
    Json one = {{"kind", kKinds[static_cast<int>(parameter.kind)]}};
    if (parameter.kind == Kind::kArgument) one["slot"] = parameter.slot;
    if (parameter.map.has_value()) one["tensor_map"] = to_json(*parameter.map);
    parameters.push_back(std::move(one));
  }
  Json json = {{"kernel", launch.kernel},
               {"groups", launch.groups},
               {"items", launch.items},
               {"parameters", std::move(parameters)}};
  if (launch.local_bytes > 0) json["local_bytes"] = launch.local_bytes;
  return json;
}

Json to_json(const std::vector<SimtProgram::Launch>& launches) {
  Json list = Json::array();
  for (const SimtProgram::Launch& launch : launches) list.push_back(to_json(launch));
  return list;
}

// Reads fields of one object; the first that is wrong is the error.
class Fields {
 public:
  Fields(const Json& json, std::string where, std::string* error)
      : json_(json), where_(std::move(where)), error_(error) {
    if (!json.is_object()) fail("", "is no object");
  }

  bool has(const char* name) const { return json_.is_object() && json_.contains(name); }
  int64_t integer(const char* name, int64_t least) {
    const Json* value = find(name);
    if (value == nullptr) return least;
    if (!value->is_number_integer() || value->get<int64_t>() < least ||
        (value->is_number_unsigned() && value->get<uint64_t>() > INT64_MAX)) {
      fail(name, concat("must be an integer, at least ", least));
      return least;
    }
    return value->get<int64_t>();
  }
  std::string text(const char* name) {
    const Json* value = find(name);
    if (value == nullptr) return "";
    if (!value->is_string()) return fail(name, "must be a string"), "";
    return value->get<std::string>();
  }
  bool boolean(const char* name) {
    const Json* value = find(name);
    if (value == nullptr) return false;
    if (!value->is_boolean()) return fail(name, "must be true or false"), false;
    return value->get<bool>();
  }
  std::vector<int64_t> integers(const char* name, int64_t least) {
    std::vector<int64_t> values;
    const Json* list = find(name);
    if (list == nullptr) return values;
    const auto is_one = [least](const Json& value) {
      return value.is_number_integer() && value.get<int64_t>() >= least &&
             !(value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX);
    };
    if (!list->is_array() || !std::all_of(list->begin(), list->end(), is_one)) {
      fail(name, concat("must be a list of integers, each at least ", least));
      return values;
    }
    for (const Json& value : *list) values.push_back(value.get<int64_t>());
    return values;
  }
  // `read(fields, element)` for each object of a list.
  template <class Read>
  void list(const char* name, const Read& read) {
    const Json* value = find(name);
    if (value == nullptr) return;
    if (!value->is_array()) return fail(name, "must be a list");
    for (size_t i = 0; i < value->size() && error_->empty(); ++i) {
      Fields fields((*value)[i], concat(where_, name, "[", uint64_t{i}, "]."), error_);
      if (error_->empty()) read(fields);
    }
  }
  // `read(fields)` of an object that may be there.
  template <class Read>
  void object(const char* name, const Read& read) {
    if (!error_->empty() || !json_.contains(name)) return;
    Fields fields(json_[name], concat(where_, name, "."), error_);
    if (error_->empty()) read(fields);
  }
  void fail(std::string_view name, std::string_view what) {
    if (error_->empty()) *error_ = concat("program of launches: ", where_, name, " ", what);
  }

 private:
  const Json* find(const char* name) {
    if (!error_->empty()) return nullptr;
    const auto found = json_.find(name);
    if (found == json_.end()) return fail(name, "is missing"), nullptr;
    return &*found;
  }

  const Json& json_;
  const std::string where_;
  std::string* const error_;
};

SimtProgram::TensorMap read_map(Fields& fields) {
  SimtProgram::TensorMap map;
  map.element_bytes = static_cast<int>(std::min<int64_t>(fields.integer("element_bytes", 1), 9));
  map.offset = fields.integer("offset", 0);
  map.sizes = fields.integers("sizes", 1);
  map.strides = fields.integers("strides", 0);
  map.box = fields.integers("box", 1);
  map.swizzled = fields.boolean("swizzled");
  const size_t rank = map.sizes.size();
  const bool whole = rank >= 1 && rank <= 5 && map.box.size() == rank &&
                     map.strides.size() == rank - 1;
  if (!whole) fields.fail("sizes", "of a tensor map: 1 to 5, as many of `box`, one less of `strides`");
  if (map.element_bytes > 8 || (map.element_bytes & (map.element_bytes - 1)) != 0) {
    fields.fail("element_bytes", "must be 1, 2, 4 or 8");
  }
  return map;
}

SimtProgram::Launch read_launch(Fields& fields, size_t arguments) {
  SimtProgram::Launch launch;
  launch.kernel = fields.text("kernel");
  launch.groups = fields.integer("groups", 1);
  launch.items = fields.integer("items", 1);
  if (fields.has("local_bytes")) launch.local_bytes = fields.integer("local_bytes", 0);
  fields.list("parameters", [&](Fields& one) {
    SimtProgram::Parameter parameter;
    const std::string kind = one.text("kind");
    const auto found = std::find(std::begin(kKinds), std::end(kKinds), kind);
    if (found == std::end(kKinds)) return one.fail("kind", "is no kind of parameter");
    parameter.kind = static_cast<Kind>(found - std::begin(kKinds));
    if (parameter.kind == Kind::kArgument) {
      const int64_t slot = one.integer("slot", 0);
      if (slot >= static_cast<int64_t>(arguments)) return one.fail("slot", "is no argument");
      parameter.slot = static_cast<int>(slot);
    }
    one.object("tensor_map", [&](Fields& map) { parameter.map = read_map(map); });
    launch.parameters.push_back(parameter);
  });
  return launch;
}

}  // namespace

std::string to_text(const SimtProgram& program) {
  Json arguments = Json::array();
  for (const SimtProgram::Argument& argument : program.arguments) {
    arguments.push_back({{"bytes", argument.bytes}, {"written", argument.written}});
  }
  Json json = {{"version", kVersion},
               {"arguments", std::move(arguments)},
               {"workspace_bytes", program.workspace_bytes},
               {"packed_bytes", program.packed_bytes},
               {"local_bytes", program.local_bytes},
               {"options", program.options},
               {"prepack", to_json(program.prepack)},
               {"launches", to_json(program.launches)},
               {"source", program.source}};
  if (!program.binary.bytes.empty()) {
    json["binary"] = {{"made_for", program.binary.made_for},
                      {"base64", absl::Base64Escape(program.binary.bytes)}};
  }
  return json.dump(1) + "\n";
}

absl::StatusOr<SimtProgram> parse_simt_program(std::string_view text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  std::string error;
  SimtProgram program;
  Fields fields(json, "", &error);
  if (fields.integer("version", 1) != kVersion) fields.fail("version", "is not known here");
  fields.list("arguments", [&](Fields& one) {
    program.arguments.push_back({one.integer("bytes", 0), one.boolean("written")});
  });
  program.workspace_bytes = fields.integer("workspace_bytes", 0);
  program.packed_bytes = fields.integer("packed_bytes", 0);
  program.local_bytes = fields.integer("local_bytes", 0);
  program.options = fields.text("options");
  const size_t arguments = program.arguments.size();
  fields.list("prepack",
              [&](Fields& one) { program.prepack.push_back(read_launch(one, arguments)); });
  fields.list("launches",
              [&](Fields& one) { program.launches.push_back(read_launch(one, arguments)); });
  program.source = fields.text("source");
  fields.object("binary", [&](Fields& one) {
    program.binary.made_for = one.text("made_for");
    if (!absl::Base64Unescape(one.text("base64"), &program.binary.bytes)) {
      one.fail("base64", "is none");
    }
  });
  if (!error.empty()) return absl::InvalidArgumentError(error);
  return program;
}

}  // namespace lw
