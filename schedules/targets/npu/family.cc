// Simulated NPUs: a systolic array, a vector engine and DMA over memories that programs manage. A
// target holds a configuration of the simulator, whose description says what its fields are.
#include <algorithm>
#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "schedules/targets/npu/npu_target.h"
#include "src/base/hash.h"

namespace lw {
namespace {

using npu::Config;

// ---- the part -----------------------------------------------------------------------------------

// In texts the configuration's name is another field than the target's.
constexpr char kNameField[] = "config";
constexpr int kFirstField = 101;           // family.h says why

template <class E>
std::string word_of(const void* value) {
  return std::string(npu::name_of(*static_cast<const E*>(value)));
}
template <class E>
bool parse_word(std::string_view word, void* value) {
  return npu::parse_name(word, static_cast<E*>(value));
}

// "i8,bf16".
std::string dtypes_word(const void* value) {
  return absl::StrJoin(*static_cast<const std::vector<npu::Dtype>*>(value), ",",
                       [](std::string* out, npu::Dtype dtype) { *out += npu::name_of(dtype); });
}
bool parse_dtypes(std::string_view word, void* value) {
  std::vector<npu::Dtype> dtypes;
  const std::vector<std::string> words = absl::StrSplit(std::string(word), ',');
  for (const std::string& one : words) {
    if (!npu::parse_name(one, &dtypes.emplace_back())) return false;
  }
  *static_cast<std::vector<npu::Dtype>*>(value) = std::move(dtypes);
  return true;
}

template <class T>
PartField::Value form_of(const npu::FieldRule& rule, T& value) {
  if constexpr (std::is_enum_v<T>) {
    return PartWord{&value, word_of<T>, parse_word<T>, rule.meaning};
  } else if constexpr (std::is_same_v<T, std::vector<npu::Dtype>>) {
    return PartWord{&value, dtypes_word, parse_dtypes, rule.meaning};
  } else {
    return &value;
  }
}

// Their names: the paths of the configuration's values, which stay where they are.
const std::vector<std::string>& field_names() {
  static const std::vector<std::string>* names = [] {
    auto* list = new std::vector<std::string>;
    const Config usual;
    npu::visit_values(usual, [&](const std::string& path, const npu::FieldRule&, const auto&) {
      list->push_back(path == "name" ? kNameField : path);
    });
    return list;
  }();
  return *names;
}

std::vector<PartField> fields(void* part) {
  const std::vector<std::string>& names = field_names();
  std::vector<PartField> list;
  list.reserve(names.size());
  npu::visit_values(*static_cast<Config*>(part),
                    [&](const std::string&, const npu::FieldRule& rule, auto& value) {
    const int n = static_cast<int>(list.size());
    list.push_back({{kFirstField + n, names[n].c_str()}, form_of(rule, value)});
  });
  return list;
}

// ---- what everybody asks ------------------------------------------------------------------------

std::string defect(const Target& target) {
  const Config& c = npu_config(target);
  if (c.name.empty() || c.name.size() > 64) return "config must be 1 to 64 characters";
  if (const absl::Status status = npu::check_config(c); !status.ok()) {
    return std::string(status.message());
  }
  if (target.ghz != c.clock_mhz / 1000) return "ghz must be clock_mhz / 1000";
  if (target.cores != 1) return "cores must be 1";
  return "";
}

// Of two that take no time, 0.
double bandwidth_ratio(const Config& a, const Config& b) {
  const double one = npu::peak_bytes_per_cycle(a), other = npu::peak_bytes_per_cycle(b);
  return one == other ? 0 : log_ratio(one, other);
}

// Whether programs for `a` are programs for `b` too.
bool runs_on(const Config& a, const Config& b) {
  const auto is_multiple = [](int64_t x, int64_t of) { return x % of == 0; };
  const auto has = [&](npu::Dtype dtype) {
    return std::find(b.mx.dtypes.begin(), b.mx.dtypes.end(), dtype) != b.mx.dtypes.end();
  };
  return a.mx.rows == b.mx.rows && a.mx.columns == b.mx.columns && a.align.k == b.align.k &&
         a.align.n == b.align.n && a.ve.lanes == b.ve.lanes && b.spm.bytes >= a.spm.bytes &&
         b.acc.bytes >= a.acc.bytes && is_multiple(a.spm.align, b.spm.align) &&
         is_multiple(a.acc.align, b.acc.align) && a.queues.semaphores <= b.queues.semaphores &&
         a.mx.output_stationary <= b.mx.output_stationary && a.requant == b.requant &&
         std::all_of(a.mx.dtypes.begin(), a.mx.dtypes.end(), has);
}

double distance(const Target& one, const Target& other) {
  Config a = npu_config(one), b = npu_config(other);
  a.name = b.name;
  if (npu::print_config(a) == npu::print_config(b)) return 0;
  if (!runs_on(a, b)) return HUGE_VAL;
  // Larger than 0, whatever else differs: waits, queues, the vector engine.
  return 0.1 + 0.5 * log_ratio(a.spm.bytes, b.spm.bytes) +
         0.5 * log_ratio(a.acc.bytes, b.acc.bytes) + bandwidth_ratio(a, b) +
         (a.mx.mode != b.mx.mode ? 0.5 : 0);
}

TargetSummary summary(const Target& target) {
  const Config& c = npu_config(target);
  TargetSummary summary;
  summary.figures = {{"array", absl::StrCat(c.mx.rows, "x", c.mx.columns)}};
  summary.memories = {{"SPM", c.spm.bytes}, {"ACC", c.acc.bytes}, {"DRAM", 0}};
  return summary;
}

std::vector<std::pair<const char*, std::string>> other_names(const Target& target) {
  return {{kNameField, npu_config(target).name}};
}

// ---- the simulator's configurations -------------------------------------------------------------

constexpr std::string_view kPrefix = "npu_";

Target shipped(const std::string& name) {
  absl::StatusOr<Config> config = npu::find_config(name);
  CHECK(config.ok());                      // tests read each
  return npu_target(*std::move(config));
}

std::vector<Target> builtin() {
  std::vector<Target> targets;
  for (const std::string& name : npu::config_names()) targets.push_back(shipped(name));
  return targets;
}

// By the names that there are: find_config() itself would read any file.
absl::StatusOr<Target> find(std::string_view name) {
  for (const auto& names : {npu::config_names(), npu::profile_names()}) {
    for (const std::string& one : names) {
      if (name == absl::StrCat(std::string(kPrefix), one)) return shipped(one);
    }
  }
  return absl::NotFoundError("no such configuration");
}

// A group that configurations have and texts of targets do not.
bool describes(absl::FunctionRef<bool(const char* field)> has_field) {
  return has_field("mx") || has_field("spm") || has_field("dram");
}

absl::StatusOr<Target> parse(std::string_view text, std::string_view source) {
  absl::StatusOr<Config> config = npu::parse_config(text, source);
  if (!config.ok()) return config.status();
  return npu_target(*std::move(config));
}

// Whether the text is a value of the field.
bool parse_value(const std::string& text, std::string* value) {
  *value = text;
  return true;
}
bool parse_value(const std::string& text, bool* value) {
  *value = text == "true";
  return *value || text == "false";
}
bool parse_value(const std::string& text, double* value) { return absl::SimpleAtod(text, value); }
bool parse_value(const std::string& text, std::vector<npu::Dtype>* value) {
  return parse_dtypes(text, value);
}
template <class T>
bool parse_value(const std::string& text, T* value) {
  if constexpr (std::is_enum_v<T>) {
    return npu::parse_name(text, value);
  } else {
    return absl::SimpleAtoi(text, value);
  }
}

absl::StatusOr<Target> with(const Target& target, std::span<const FieldSetting> settings) {
  Config config = npu_config(target);
  std::string name = config.name;
  for (const FieldSetting& setting : settings) {
    bool known = false, taken = false;
    npu::visit_values(config, [&](const std::string& path, const npu::FieldRule&, auto& value) {
      if (path != setting.field || path == "name") return;
      known = true;
      taken = parse_value(setting.value, &value);
    });
    if (!known) {
      return absl::InvalidArgumentError(
          absl::StrCat(target.name, " has no field ", setting.field,
                       " to vary; `loopwright targets ", target.name, " --json` shows all"));
    }
    if (!taken) {
      return absl::InvalidArgumentError(
          absl::StrCat(setting.field, " cannot be '", setting.value, "'"));
    }
    absl::StrAppend(&name, "_", setting.field, "=", setting.value);
  }
  constexpr size_t kMostName = 60;
  if (name.size() > kMostName) {
    name = absl::StrCat(name.substr(0, kMostName - 17), "_", absl::Hex(hash64(name)));
  }
  config.name = name;
  if (const absl::Status status = npu::check_config(config); !status.ok()) return status;
  return npu_target(std::move(config));
}

std::vector<std::pair<const char*, double>> area(const Target& target) {
  const Config& c = npu_config(target);
  return {{"MACs", static_cast<double>(c.mx.rows * c.mx.columns)},
          {"SRAM bytes", static_cast<double>(c.spm.bytes + c.acc.bytes)}};
}

constexpr TargetFamily::Configurations kConfigurations = {.builtin = builtin,
                                                          .find = find,
                                                          .describes = describes,
                                                          .parse = parse,
                                                          .with = with,
                                                          .area = area};

constexpr const char* kArchitectures[] = {"npu"};

// A row of operands in each cycle: a product in each of R x C places. The first sums come as late
// as the wavefront that crosses the array.
Atom atom_of(const Config& c, Type operand, Type sum, double per_cycle) {
  const bool direct = c.mx.mode == npu::ArrayMode::kDirect;
  Atom atom;
  atom.name = absl::StrCat(std::string(type_name(operand)), "_mx");
  atom.a = atom.b = operand;
  atom.acc = sum;
  atom.lanes = static_cast<int>(c.mx.columns);
  atom.group = static_cast<int>(c.mx.rows);
  atom.per_cycle = per_cycle;
  atom.latency =
      static_cast<double>((direct ? 1 : c.mx.rows + c.mx.columns - 1) + c.mx.latency);
  return atom;
}

}  // namespace

constinit const TargetFamily kNpuFamily = {
    .name = "npu",
    .architectures = kArchitectures,
    .mark = "mx.R",
    .has_schedules = true,
    .has_threads = false,
    .copy = copy_part<Config>,
    .fields = fields,
    .omission = defect,
    .defect = defect,
    .distance = distance,
    .summary = summary,
    .known_as = other_names,
    .units = nullptr,
    .registers = nullptr,
    .computes_in = nullptr,
    .host = nullptr,
    .configurations = &kConfigurations,
};

const TargetFamily& npu_family() { return kNpuFamily; }

Target npu_target(Config config) {
  Target target;
  target.name = absl::StrCat(std::string(kPrefix), config.name);
  target.architecture = kArchitectures[0];
  target.ghz = config.clock_mhz / 1000;
  for (const npu::Dtype dtype : config.mx.dtypes) {
    target.atoms.push_back(
        dtype == npu::Dtype::kI8
            ? atom_of(config, Type::kI8, Type::kI32, 1)
            : atom_of(config, Type::kBF16, Type::kF32, config.mx.bf16_rate));
  }
  target.part = TargetPart(kNpuFamily, std::make_shared<const Config>(std::move(config)));
  return target;
}

}  // namespace lw
