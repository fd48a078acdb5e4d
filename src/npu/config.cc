// Reading, printing and refusing, by visiting the fields once described in config.h.
#include "src/npu/config.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <concepts>
#include <limits>
#include <type_traits>

#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "src/base/check.h"
#include "src/base/files.h"
#include "src/base/message.h"
#include "src/base/named.h"

namespace lw {
const std::vector<std::pair<const char*, const char*>>& builtin_npu_configs();
const std::vector<std::pair<const char*, const char*>>& builtin_npu_profiles();
}

namespace lw::npu {
namespace {

using Json = nlohmann::ordered_json;

constexpr Named<ArrayMode> kModes[] = {{ArrayMode::kPipelined, "pipelined"},
                                       {ArrayMode::kSerial, "serial"},
                                       {ArrayMode::kDirect, "direct"}};
constexpr Named<Dtype> kDtypes[] = {
    {Dtype::kI8, "i8"}, {Dtype::kBf16, "bf16"}, {Dtype::kI32, "i32"}, {Dtype::kF32, "f32"}};
constexpr Named<DramKind> kKinds[] = {
    {DramKind::kIdeal, "ideal"}, {DramKind::kFlat, "flat"}, {DramKind::kPaged, "paged"}};
constexpr Named<ChannelHash> kHashes[] = {{ChannelHash::kNone, "none"}, {ChannelHash::kXor, "xor"}};
constexpr Named<Requant> kRequants[] = {{Requant::kF32Rne, "f32_rne"},
                                        {Requant::kTflite, "tflite"}};

template <class T>
concept Word = std::is_enum_v<T>;

std::string number(double value) {
  return value == std::floor(value) && std::abs(value) < 1e15 ? absl::StrFormat("%.0f", value)
                                                              : absl::StrFormat("%.6g", value);
}

std::string shown(const Json& value) {
  const std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.size() <= 60 ? text : text.substr(0, 57) + "...";
}

absl::Status refuse(const std::string& path, const std::string& why) {
  return absl::InvalidArgumentError(concat(path, ": ", why));
}

template <class T>
std::vector<std::string> names_of() {
  std::vector<std::string> names;
  T blank;
  T::fields(blank, [&](FieldRule rule, auto&) { names.push_back(rule.name); });
  return names;
}

struct Writer {
  Json write(bool value) { return value; }
  Json write(int64_t value) { return value; }
  Json write(double value) {
    if (value == std::floor(value) && std::abs(value) < 1e15) return static_cast<int64_t>(value);
    return value;
  }
  Json write(const std::string& value) { return value; }
  template <Word T>
  Json write(T value) {
    return std::string(name_of(value));
  }
  Json write(const std::vector<Dtype>& values) {
    Json list = Json::array();
    for (Dtype value : values) list.push_back(write(value));
    return list;
  }
  template <ConfigGroup T>
  Json write(const T& value) {
    Json object = Json::object();
    T::fields(value, [&](FieldRule rule, const auto& field) { object[rule.name] = write(field); });
    return object;
  }
};

absl::Status out_of_range(const std::string& path, const FieldRule& rule, std::string_view what,
                          const std::string& value) {
  return refuse(path, concat(what, " from ", number(rule.least), " to ", number(rule.most), ", not ",
                             value));
}

// Whether a value alone may be.
absl::Status check_value(const std::string& path, const FieldRule& rule, int64_t value) {
  if (static_cast<double>(value) >= rule.least && static_cast<double>(value) <= rule.most) {
    return absl::OkStatus();
  }
  return out_of_range(path, rule, "a whole number", number(static_cast<double>(value)));
}
absl::Status check_value(const std::string& path, const FieldRule& rule, double value) {
  if (value >= rule.least && value <= rule.most) return absl::OkStatus();  // no NaN
  return out_of_range(path, rule, "a number", number(value));
}
absl::Status check_value(const std::string& path, const FieldRule&, const std::string& value) {
  if (!value.empty() && value.size() <= 64) return absl::OkStatus();
  return refuse(path, concat("a text of 1 to 64 characters, not ", shown(value)));
}
absl::Status check_value(const std::string& path, const FieldRule&,
                         const std::vector<Dtype>& values) {
  if (values.empty()) return refuse(path, "a list of types, not []");
  for (size_t i = 0; i < values.size(); ++i) {
    const std::string one = shown(std::string(name_of(values[i])));
    if (values[i] != Dtype::kI8 && values[i] != Dtype::kBf16) {
      return refuse(path, concat("i8 and bf16 are allowed, not ", one));
    }
    if (std::find(values.begin(), values.begin() + i, values[i]) != values.begin() + i) {
      return refuse(path, concat(one, " stands there twice"));
    }
  }
  return absl::OkStatus();
}
absl::Status check_value(const std::string&, const FieldRule&, bool) { return absl::OkStatus(); }
template <Word T>
absl::Status check_value(const std::string&, const FieldRule&, T) {
  return absl::OkStatus();
}

// One value from `json`. `path` names it in messages.
struct Reader {
  absl::Status read(const Json& json, const FieldRule&, const std::string& path, bool* value) {
    if (!json.is_boolean()) return refuse(path, concat("true or false, not ", shown(json)));
    *value = json.get<bool>();
    return absl::OkStatus();
  }
  absl::Status read(const Json& json, const FieldRule& rule, const std::string& path,
                    int64_t* value) {
    const double number = json.is_number() ? json.get<double>() : std::nan("");
    if (number != std::floor(number) || !(number >= rule.least && number <= rule.most)) {
      return out_of_range(path, rule, "a whole number", shown(json));
    }
    *value = static_cast<int64_t>(number);
    return absl::OkStatus();
  }
  absl::Status read(const Json& json, const FieldRule& rule, const std::string& path,
                    double* value) {
    if (!json.is_number()) return out_of_range(path, rule, "a number", shown(json));
    *value = json.get<double>();
    return check_value(path, rule, *value);
  }
  absl::Status read(const Json& json, const FieldRule& rule, const std::string& path,
                    std::string* value) {
    if (!json.is_string()) {
      return refuse(path, concat("a text of 1 to 64 characters, not ", shown(json)));
    }
    *value = json.get<std::string>();
    return check_value(path, rule, *value);
  }
  template <Word T>
  absl::Status read(const Json& json, const FieldRule& rule, const std::string& path, T* value) {
    if (!json.is_string() || !parse_name(json.get<std::string>(), value)) {
      return refuse(path, concat("'", rule.meaning, "' are allowed, not ", shown(json)));
    }
    return absl::OkStatus();
  }
  absl::Status read(const Json& json, const FieldRule& rule, const std::string& path,
                    std::vector<Dtype>* values) {
    if (!json.is_array() || json.size() > 4) {
      return refuse(path, concat("a list of types, not ", shown(json)));
    }
    values->clear();
    for (const Json& one : json) RETURN_IF_ERROR(read(one, rule, path, &values->emplace_back()));
    return check_value(path, rule, *values);
  }
  template <ConfigGroup T>
  absl::Status read(const Json& json, const FieldRule&, const std::string& path, T* value) {
    return group(json, path, value);
  }

  template <ConfigGroup T>
  absl::Status group(const Json& json, const std::string& path, T* value) {
    const std::string prefix = path.empty() ? "" : path + ".";
    if (!json.is_object()) {
      return refuse(path.empty() ? "the file" : path, concat("an object, not ", shown(json)));
    }
    const std::vector<std::string> known = names_of<T>();
    for (const auto& [key, ignored] : json.items()) {
      if (std::find(known.begin(), known.end(), key) != known.end()) continue;
      const std::string near = nearest_name(key, known);
      return refuse(prefix + key.substr(0, 60),
                    concat("no such field", near.empty() ? "" : concat("; did you mean '", near,
                                                                       "'?")));
    }
    absl::Status status;
    T::fields(*value, [&](FieldRule rule, auto& field) {
      if (!status.ok()) return;
      const auto found = json.find(rule.name);
      status = found != json.end()
                   ? read(*found, rule, prefix + rule.name, &field)
                   : refuse(prefix + rule.name, concat("missing (", rule.meaning, ")"));
    });
    return status;
  }
};

bool is_power(int64_t value) { return std::has_single_bit(static_cast<uint64_t>(value)); }

absl::Status check_powers(const Config& c) {
  const std::pair<const char*, int64_t> powers[] = {
      {"spm.align", c.spm.align},         {"dma.interleave", c.dma.interleave},
      {"dram.channels", c.dram.channels}, {"dram.groups", c.dram.groups},
      {"dram.banks", c.dram.banks},       {"dram.page", c.dram.page},
      {"dram.beat_bytes", c.dram.beat}};
  for (const auto& [path, value] : powers) {
    if (!is_power(value)) return refuse(path, concat("a power of two, not ", value));
  }
  return absl::OkStatus();
}

absl::Status check_ranges(const Config& c) {
  absl::Status status;
  visit_values(c, [&](const std::string& path, const FieldRule& rule, const auto& value) {
    if (status.ok()) status = check_value(path, rule, value);
  });
  return status;
}

// Where the two of a row stand in the other order.
absl::Status check_order(const Config& c) {
  const struct {
    const char* small;
    double small_value;
    const char* large;
    double large_value;
  } pairs[] = {
      {"align.k", double(c.align.k), "mx.R", double(c.mx.rows)},
      {"align.n", double(c.align.n), "mx.C", double(c.mx.columns)},
      {"spm.align", double(c.spm.align), "spm.bytes", double(c.spm.bytes)},
      {"dram.beat_bytes", double(c.dram.beat), "dram.page", double(c.dram.page)},
      {"dram.beat_bytes", double(c.dram.beat), "dma.interleave", double(c.dma.interleave)},
      {"dram.groups", double(c.dram.groups), "dram.banks", double(c.dram.banks)},
      {"dram.tCCD", c.dram.ccd, "dram.tCCD_L", c.dram.ccd_long},
      {"dram.tRCD", c.dram.rcd, "dram.tRAS", c.dram.ras},
      {"dram.tRFC", c.dram.rfc, "dram.tREFI", c.dram.refi},
  };
  for (const auto& row : pairs) {
    if (row.small_value <= row.large_value) continue;
    return refuse(row.small, concat("at most ", row.large, " (", number(row.large_value), "), not ",
                                    number(row.small_value)));
  }
  return absl::OkStatus();
}

}  // namespace

std::string_view name_of(ArrayMode mode) { return name_in(kModes, mode); }
std::string_view name_of(Dtype dtype) { return name_in(kDtypes, dtype); }
std::string_view name_of(DramKind kind) { return name_in(kKinds, kind); }
std::string_view name_of(ChannelHash hash) { return name_in(kHashes, hash); }
std::string_view name_of(Requant requant) { return name_in(kRequants, requant); }
bool parse_name(std::string_view name, ArrayMode* mode) { return parse_in(kModes, name, mode); }
bool parse_name(std::string_view name, Dtype* dtype) { return parse_in(kDtypes, name, dtype); }
bool parse_name(std::string_view name, DramKind* kind) { return parse_in(kKinds, name, kind); }
bool parse_name(std::string_view name, ChannelHash* hash) { return parse_in(kHashes, name, hash); }
bool parse_name(std::string_view name, Requant* requant) {
  return parse_in(kRequants, name, requant);
}

absl::Status check_config(const Config& config) {
  RETURN_IF_ERROR(check_ranges(config));
  RETURN_IF_ERROR(check_powers(config));
  RETURN_IF_ERROR(check_order(config));
  if (config.acc.bytes % (4 * config.acc.align) != 0) {
    return refuse("acc.bytes", concat("a multiple of 4 x acc.align (", 4 * config.acc.align,
                                      "), not ", config.acc.bytes));
  }
  if (config.spm.bytes % config.spm.align != 0) {
    return refuse("spm.bytes", concat("a multiple of spm.align (", config.spm.align, "), not ",
                                      config.spm.bytes));
  }
  return absl::OkStatus();
}

absl::StatusOr<Config> parse_config(std::string_view json, std::string_view source) {
  const auto in_source = [&](const absl::Status& status) {
    return absl::InvalidArgumentError(concat(source, ": ", std::string(status.message())));
  };
  // A key that stands there twice would silently lose one of its values.
  std::vector<std::vector<std::string>> open;
  std::string twice;
  const Json::parser_callback_t watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) open.emplace_back();
    if (event == Json::parse_event_t::object_end && !open.empty()) open.pop_back();
    if (event == Json::parse_event_t::key && !open.empty()) {
      const std::string key = parsed.get<std::string>();
      for (const std::string& other : open.back()) {
        if (other == key) twice = key;
      }
      open.back().push_back(key);
    }
    return depth < 8;
  };
  const Json value = Json::parse(json.begin(), json.end(), watch, /*allow_exceptions=*/false);
  if (value.is_discarded()) {
    return in_source(absl::InvalidArgumentError("not JSON (check commas, quotes and brackets)"));
  }
  if (!twice.empty()) return in_source(refuse(twice, "stands there twice"));
  Config config;
  if (absl::Status status = Reader().group(value, "", &config); !status.ok()) {
    return in_source(status);
  }
  if (absl::Status status = check_config(config); !status.ok()) return in_source(status);
  return config;
}

std::string print_config(const Config& config) {
  // A group a line: short enough to compare two of them by eye.
  const Json object = Writer().write(config);
  std::string text = "{\n";
  for (auto at = object.begin(); at != object.end(); ++at) {
    text += concat("  ", Json(at.key()).dump(), ": ", at.value().dump(),
                   std::next(at) == object.end() ? "\n" : ",\n");
  }
  return text + "}\n";
}

namespace {

using Texts = std::vector<std::pair<const char*, const char*>>;

std::vector<std::string> names_in(const Texts& files) {
  std::vector<std::string> names;
  for (const auto& [file, text] : files) {
    const std::string name = file;
    names.push_back(name.substr(0, name.rfind(".json")));
  }
  return names;
}

}  // namespace

std::vector<std::string> config_names() { return names_in(builtin_npu_configs()); }
std::vector<std::string> profile_names() { return names_in(builtin_npu_profiles()); }

absl::StatusOr<Config> find_config(const std::string& name) {
  if (name.find('/') != std::string::npos || name.ends_with(".json")) {
    ASSIGN_OR_RETURN(const std::string text, read_file(name));
    return parse_config(text, name);
  }
  std::vector<std::string> known;
  for (const Texts* files : {&builtin_npu_configs(), &builtin_npu_profiles()}) {
    for (const auto& [file, text] : *files) {
      if (file == name + ".json") return parse_config(text, name);
    }
    const std::vector<std::string> names = names_in(*files);
    known.insert(known.end(), names.begin(), names.end());
  }
  const std::string near = nearest_name(name, known);
  return absl::InvalidArgumentError(
      concat("no configuration '", name, "'",
             near.empty() ? "" : concat("; did you mean '", near, "'?"),
             " (`npu_sim configs` lists them; a file's path has a '/' or ends in .json)"));
}

std::string describe_fields() {
  std::string text;
  const Config usual;
  visit_values(usual, [&](const std::string& path, const FieldRule& rule, const auto& value) {
    const bool ranged =
        rule.least != rule.most && !std::is_same_v<std::decay_t<decltype(value)>, bool>;
    text += absl::StrFormat("%-22s %-18s %s\n", path,
                            ranged ? number(rule.least) + " .. " + number(rule.most) : "",
                            rule.meaning);
  });
  return text;
}

double peak_bytes_per_cycle(const Config& config) {
  const DramConfig& dram = config.dram;
  if (dram.kind == DramKind::kIdeal) return std::numeric_limits<double>::infinity();
  if (dram.kind == DramKind::kFlat) return dram.bytes_per_cycle;
  const double core_cycles = config.clock_mhz / dram.clock_mhz;
  const double data = dram.pseudo * dram.beat / (dram.ccd * core_cycles);
  const double commands =
      dram.command > 0 ? dram.beat / (dram.command * core_cycles) : data;
  return dram.channels * std::min({data, commands, config.dma.port_bytes});
}

}  // namespace lw::npu
