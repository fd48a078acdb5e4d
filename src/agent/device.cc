// The kinds of devices and the words that ask for them. Another kind is a row of the table below:
// what it is, how it is described, who measures on it.
#include "src/agent/device.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "schedules/targets/target.h"
#include "src/agent/cuda_kind.h"
#include "src/agent/describe.h"
#include "src/agent/opencl_kind.h"
#include "src/api/run/tune_task.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/base/parallel_pool.h"
#include "src/measure/cpu/emulator.h"
#include "src/measure/exec/exec_device.h"
#include "src/measure/local.h"
#include "src/measure/memory.h"
#include "src/search/null_measurer.h"
#include "tuner_db/messages/messages.h"

namespace lw {
namespace {

constexpr int kMaxDelayMs = 60'000;
constexpr int kMaxProcessor = 4095;
constexpr int kMaxMemoryMib = 1 << 30;
constexpr int kMaxLimit_s = 24 * 3600;
constexpr int kUsualLimit_s = 120;         // of an exec device's jobs

double memory_here(const DeviceSpec& spec) {
  const double limit = memory_limit();
  return std::isfinite(limit) ? limit : 0;
}

double memory_claimed(const DeviceSpec& spec) { return spec.memory_mib * double{1 << 20}; }

// As load_target() takes it.
absl::StatusOr<Target> find_machine(const std::string& given) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const Target> target, load_target(given));
  return *target;
}

absl::Status check_architecture(std::string_view does, const Target& target, const Task& task) {
  if (task.target()->architecture == target.architecture) return absl::OkStatus();
  return absl::FailedPreconditionError(concat("this device ", does, target.architecture, ", not ",
                                              task.target()->architecture));
}

// ---- this machine -------------------------------------------------------------------------------

// One for each processor, so that devices exclude each other wherever they overlap.
std::vector<std::string> processor_locks(const DeviceSpec& spec) {
  std::vector<std::string> locks;
  for (int cpu : spec.cpus) locks.push_back(concat("cpu:", cpu));
  return locks;
}

absl::StatusOr<std::unique_ptr<Measurer>> cpu_measurer(const DeviceSpec& spec, const Task& task,
                                                       uint64_t seed) {
  if (absl::Status runs = check_runs_here(task); !runs.ok()) {
    return absl::FailedPreconditionError(runs.message());
  }
  LocalOptions options;
  options.seed = seed;
  options.cpus = spec.cpus;
  options.isolation = spec.isolation.value_or(IsolationLevel::kNone);
  return make_measurer(task, std::move(options));
}

// ---- another architecture's, emulated -----------------------------------------------------------

absl::StatusOr<Emulator> emulator_of(const DeviceSpec& spec) {
  ASSIGN_OR_RETURN(const Target target, find_machine(spec.target));
  return find_emulator(target);
}

absl::Status describe_emulated(const DeviceSpec& spec, loopwright::v1::Device* device) {
  ASSIGN_OR_RETURN(const Emulator emulator, emulator_of(spec));
  ASSIGN_OR_RETURN(const Target target, find_machine(spec.target));
  RETURN_IF_ERROR(describe_target(target, device));
  device->set_facts(
      concat("{\"emulated\":true,\"estimated\":true,\"emulator\":\"", emulator.name, "\"}"));
  return absl::OkStatus();
}

std::string emulated_identity(const DeviceSpec& spec) {
  const absl::StatusOr<Emulator> emulator = emulator_of(spec);
  return concat("emulated ", spec.target, " ", emulator.ok() ? emulator->command : "");
}

absl::StatusOr<std::unique_ptr<Measurer>> emulated_measurer(const DeviceSpec& spec,
                                                            const Task& task, uint64_t seed) {
  ASSIGN_OR_RETURN(const Target target, find_machine(spec.target));
  RETURN_IF_ERROR(check_architecture("emulates ", target, task));
  if (absl::StatusOr<Emulator> emulator = emulator_of(spec); !emulator.ok()) {
    return absl::FailedPreconditionError(emulator.status().message());
  }
  LocalOptions options;
  options.seed = seed;
  return make_measurer(task, std::move(options));
}

// ---- a simulated machine ------------------------------------------------------------------------

absl::Status describe_simulated(const DeviceSpec& spec, loopwright::v1::Device* device) {
  ASSIGN_OR_RETURN(const Target target, find_machine(spec.target));
  RETURN_IF_ERROR(describe_target(target, device));
  device->set_facts("{\"simulated\":true}");
  return absl::OkStatus();
}

// Another machine of the same name is another device.
std::string simulated_identity(const DeviceSpec& spec) {
  const absl::StatusOr<Target> target = find_machine(spec.target);
  return concat("simulated ", target.ok() ? to_text(*target) : spec.target);
}

absl::StatusOr<std::unique_ptr<Measurer>> simulated_measurer(const DeviceSpec& spec,
                                                             const Task& task, uint64_t seed) {
  ASSIGN_OR_RETURN(const Target target, find_machine(spec.target));
  RETURN_IF_ERROR(check_architecture("simulates ", target, task));
  LocalOptions options;
  options.seed = seed;
  return make_measurer(task, std::move(options));
}

// ---- a program that is asked --------------------------------------------------------------------

absl::Status describe_exec(const DeviceSpec& spec, loopwright::v1::Device* device) {
  ASSIGN_OR_RETURN(const Target target, find_machine(spec.target));
  ASSIGN_OR_RETURN(const ExecFacts facts,
                   exec_device_facts(spec.command, spec.clock, target));
  RETURN_IF_ERROR(describe_target(target, device));
  device->set_facts(facts.json);
  device->set_time_kind(to_proto(facts.time_kind));
  device->set_exact(is_computed(facts.time_kind));
  return absl::OkStatus();
}

// Another release of the program is another device, as is another processor.
std::string exec_identity(const DeviceSpec& spec) {
  const absl::StatusOr<Target> target = find_machine(spec.target);
  if (!target.ok()) return concat("exec ", spec.command, " ", spec.target);
  const absl::StatusOr<ExecFacts> facts =
      exec_device_facts(spec.command, spec.clock, *target);
  return concat("exec ", spec.command, " ", facts.ok() ? facts->name : "", " ", to_text(*target));
}

absl::StatusOr<std::unique_ptr<Measurer>> exec_measurer(const DeviceSpec& spec, const Task& task,
                                                        uint64_t seed) {
  ASSIGN_OR_RETURN(const Target target, find_machine(spec.target));
  RETURN_IF_ERROR(check_architecture("runs programs for ", target, task));
  LocalOptions options;
  options.seed = seed;
  options.exec = spec.command;
  options.exec_clock = spec.clock;
  options.run_timeout_s = spec.limit_s > 0 ? spec.limit_s : kUsualLimit_s;
  return make_measurer(task, std::move(options));
}

// ---- no machine ---------------------------------------------------------------------------------

absl::Status describe_null(const DeviceSpec& spec, loopwright::v1::Device* device) {
  ASSIGN_OR_RETURN(const Target target, find_machine(spec.target));
  RETURN_IF_ERROR(describe_target(target, device));
  device->set_facts("{\"null\":true}");
  return absl::OkStatus();
}

std::string null_identity(const DeviceSpec& spec) { return concat("null ", spec.target); }

absl::StatusOr<std::unique_ptr<Measurer>> null_measurer(const DeviceSpec& spec, const Task& task,
                                                        uint64_t seed) {
  NullOptions options;
  options.seed = seed;
  options.threads = task.threads();
  options.time_kind = TimeKind::kEstimated;
  return make_null_measurer(options);
}

// ---- words --------------------------------------------------------------------------------------

absl::Status bad(std::string_view text, std::string_view what) {
  return absl::InvalidArgumentError(concat("--device ", text, ": ", what));
}

bool parse_number(std::string_view text, int least, int most, int* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size() && *value >= least &&
         *value <= most;
}

// "0-3,8": but commas separate options, so lists are written 0-3+8.
bool parse_processors(std::string_view text, std::vector<int>* cpus) {
  std::set<int> all;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find('+', at), text.size());
    const std::string_view range = text.substr(at, end - at);
    const size_t dash = range.find('-');
    int first = 0, last = 0;
    if (!parse_number(range.substr(0, dash), 0, kMaxProcessor, &first)) return false;
    last = first;
    if (dash != std::string_view::npos &&
        !parse_number(range.substr(dash + 1), first, kMaxProcessor, &last)) {
      return false;
    }
    for (int cpu = first; cpu <= last; ++cpu) all.insert(cpu);
    at = end + 1;
  }
  cpus->assign(all.begin(), all.end());
  return true;
}

absl::Status parse_option(std::string_view text, std::string_view option, DeviceSpec* spec) {
  const size_t equals = option.find('=');
  const std::string_view key = option.substr(0, equals);
  const std::string value(equals == std::string_view::npos ? "" : option.substr(equals + 1));
  const std::string_view kind = spec->kind->name;
  const bool null = kind == "null", exec = spec->kind->takes_command;
  const bool no_target = spec->kind->target == nullptr;
  if (key == "name") {
    if (!is_resource_id(value)) return bad(text, "a name is 1 to 63 of a-z 0-9 . _ -");
    spec->name = value;
  } else if (key == "target" && spec->kind->target != nullptr) {
    const absl::StatusOr<Target> target = find_machine(value);
    if (!target.ok()) return bad(text, std::string(target.status().message()));
    if (!null && !exec && target->architecture != find_machine(spec->kind->target)->architecture) {
      return bad(text, concat("it is no machine like ", value));
    }
    spec->target = value;
  } else if (key == "limit_s" && exec) {
    if (!parse_number(value, 1, kMaxLimit_s, &spec->limit_s)) {
      return bad(text, concat("limit_s is 1 to ", kMaxLimit_s));
    }
  } else if (key == "clock" && exec) {
    if (value != "none") return bad(text, "clock is none, or left out");
    spec->clock = false;
  } else if (key == "isolation" && !null && !exec) {
    const absl::StatusOr<IsolationLevel> level = parse_isolation(value);
    if (!level.ok()) return bad(text, std::string(level.status().message()));
    spec->isolation = *level;
  } else if (key == "delay_ms" && null) {
    if (!parse_number(value, 0, kMaxDelayMs, &spec->delay_ms)) {
      return bad(text, concat("delay_ms is 0 to ", kMaxDelayMs));
    }
  } else if (key == "memory_mib" && null) {
    if (!parse_number(value, 1, kMaxMemoryMib, &spec->memory_mib)) {
      return bad(text, concat("memory_mib is 1 to ", kMaxMemoryMib));
    }
  } else {
    return bad(text, concat("unknown option '", key, "'",
                            null  ? "; there are name, target, delay_ms, memory_mib"
                            : no_target ? "; there are name, isolation"
                            : exec ? "; there are name, target, limit_s, clock (and no commas in commands)"
                                  : "; there are name, target, isolation"));
  }
  return absl::OkStatus();
}

std::vector<int> without(const std::vector<int>& cpus, const std::set<int>& taken) {
  std::vector<int> rest;
  for (int cpu : cpus) {
    if (!taken.contains(cpu)) rest.push_back(cpu);
  }
  return rest;
}

}  // namespace

const std::vector<DeviceKind>& device_kinds() {
  static const std::vector<DeviceKind> kinds = {
      {.name = "cpu",
       .takes_processors = true,
       .takes_command = false,
       .in_process = false,
       .time_kind = TimeKind::kMeasured,
       .target = nullptr,
       .describe = describe_cpu,
       .identity = cpu_identity,
       .shuts_in = true,
       .memory = memory_here,
       .make_measurer = cpu_measurer,
       .locks = processor_locks},
      {.name = "qemu-aarch64",
       .takes_processors = false,
       .takes_command = false,
       .in_process = false,
       .time_kind = TimeKind::kEstimated,
       .target = "aarch64_neon",
       .describe = describe_emulated,
       .identity = emulated_identity,
       .shuts_in = false,
       .memory = memory_here,
       .make_measurer = emulated_measurer},
      {.name = "npu",
       .takes_processors = false,
       .takes_command = false,
       .in_process = false,
       .time_kind = TimeKind::kSimulated,
       .target = "npu_mid32",
       .describe = describe_simulated,
       .identity = simulated_identity,
       .shuts_in = true,
       .memory = memory_here,
       .make_measurer = simulated_measurer},
      // Processors' drivers compute on all that there are, which is no reason to take them from the
      // others of an agent with a GPU: who asks for both on the same processors has them disturbed.
      {.name = "opencl",
       .takes_processors = false,
       .takes_command = false,
       .in_process = false,
       .time_kind = TimeKind::kMeasured,
       .target = nullptr,
       .describe = describe_opencl,
       .identity = opencl_identity,
       .shuts_in = false,
       .memory = memory_here,
       .make_measurer = opencl_measurer,
       .locks = opencl_locks,
       .takes_machine = true},
      {.name = "cuda",
       .takes_processors = false,
       .takes_command = false,
       .in_process = false,
       .time_kind = TimeKind::kMeasured,
       .target = nullptr,
       .describe = describe_cuda_device,
       .identity = cuda_identity,
       .shuts_in = false,
       .memory = memory_here,
       .make_measurer = cuda_measurer,
       .locks = cuda_locks,
       .takes_machine = true},
      {.name = "exec",
       .takes_processors = false,
       .takes_command = true,
       .in_process = false,
       .time_kind = TimeKind::kSimulated,
       .target = "npu_mid32",
       .describe = describe_exec,
       .identity = exec_identity,
       .shuts_in = true,
       .memory = memory_here,
       .make_measurer = exec_measurer},
      {.name = "null",
       .takes_processors = false,
       .takes_command = false,
       .in_process = true,
       .time_kind = TimeKind::kEstimated,
       .target = "x86_avx2",
       .describe = describe_null,
       .identity = null_identity,
       .shuts_in = true,
       .memory = memory_claimed,
       .make_measurer = null_measurer},
  };
  return kinds;
}

bool is_resource_id(std::string_view text) {
  if (text.empty() || text.size() > 63) return false;
  const auto alphanumeric = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  return alphanumeric(text[0]) && std::all_of(text.begin(), text.end(), [&](char c) {
           return alphanumeric(c) || c == '.' || c == '_' || c == '-';
         });
}

std::string DeviceSpec::text() const {
  std::string out = kind->name;
  if (kind->takes_processors && threads > 0) out += concat(":", threads);
  if (!command.empty()) out += concat(":", command);
  if (!which.empty()) out += concat(":", which);
  if (!cpus.empty()) out += concat("@", absl::StrJoin(cpus, "+"));
  if (!name.empty()) out += concat(",name=", name);
  if (!target.empty()) out += concat(",target=", target);
  if (delay_ms > 0) out += concat(",delay_ms=", delay_ms);
  if (memory_mib > 0) out += concat(",memory_mib=", memory_mib);
  if (limit_s > 0) out += concat(",limit_s=", limit_s);
  if (!clock) out += ",clock=none";
  if (isolation) out += concat(",isolation=", isolation_name(*isolation));
  return out;
}

absl::StatusOr<DeviceSpec> parse_device(std::string_view text, const std::string& target) {
  DeviceSpec spec;
  const size_t comma = std::min(text.find(','), text.size());
  std::string_view head = text.substr(0, comma);
  const std::string_view word = head.substr(0, head.find_first_of(":@"));
  std::vector<std::string> names;
  for (const DeviceKind& kind : device_kinds()) {
    names.push_back(kind.name);
    if (word == kind.name) spec.kind = &kind;
  }
  if (spec.kind == nullptr) {
    return bad(text, concat("unknown kind '", word, "'; there are ", absl::StrJoin(names, ", ")));
  }
  if (spec.kind->takes_command) {
    spec.command = head.substr(std::min(word.size() + 1, head.size()));
    if (spec.command.find_first_not_of(' ') == std::string::npos) {
      return bad(text, "after : stands a program, as in exec:./my_simulator");
    }
    head = word;
  }
  if (spec.kind->takes_machine && head.size() > word.size()) {
    spec.which = head.substr(word.size() + 1);
    if (head[word.size()] != ':' || spec.which.empty()) {
      return bad(text, concat("after : stands its number or a part of its name, as in ",
                              spec.kind->name, ":0"));
    }
    head = word;
  }
  if (const size_t at = head.find('@'); at != std::string_view::npos) {
    if (!spec.kind->takes_processors || !parse_processors(head.substr(at + 1), &spec.cpus)) {
      return bad(text, "after @ stand processors, as in cpu@0-3+8");
    }
    head = head.substr(0, at);
  }
  if (const size_t colon = head.find(':'); colon != std::string_view::npos) {
    const std::string_view argument = head.substr(colon + 1);
    if (spec.kind->takes_processors) {
      if (!parse_number(argument, 1, kMaxProcessor, &spec.threads)) {
        return bad(text, "after : stands a number of processors, as in cpu:2");
      }
    } else if (absl::Status named = parse_option(text, concat("name=", argument), &spec);
               !named.ok()) {
      return named;
    }
  }
  if (spec.kind->target != nullptr) {
    spec.target = spec.kind->target;
    if (!target.empty()) {
      RETURN_IF_ERROR(parse_option(text, concat("target=", target), &spec));
    }
  }
  for (size_t at = comma; at < text.size();) {
    const size_t end = std::min(text.find(',', at + 1), text.size());
    RETURN_IF_ERROR(parse_option(text, text.substr(at + 1, end - at - 1), &spec));
    at = end;
  }
  if (!spec.cpus.empty() && spec.threads > 0 &&
      spec.cpus.size() != static_cast<size_t>(spec.threads)) {
    return bad(text,
               concat(spec.threads, " processors are asked for, ", spec.cpus.size(), " are named"));
  }
  return spec;
}

absl::Status assign_devices(const std::string& agent, const std::vector<int>& allowed,
                            std::vector<DeviceSpec>* devices) {
  std::set<int> taken;
  std::set<std::string> names;
  for (size_t i = 0; i < devices->size(); ++i) {
    DeviceSpec& spec = (*devices)[i];
    if (spec.name.empty()) spec.name = concat(agent, "-", i);
    if (!names.insert(spec.name).second) {
      return absl::InvalidArgumentError(concat("two devices are named '", spec.name, "'"));
    }
    for (int cpu : spec.cpus) {
      if (std::find(allowed.begin(), allowed.end(), cpu) == allowed.end()) {
        return bad(spec.text(), concat("processor ", cpu, " is not this process's to use"));
      }
      if (!taken.insert(cpu).second) {
        return bad(spec.text(), concat("processor ", cpu, " is another device's already"));
      }
    }
  }
  // Those that say how many come before the one that takes what is left.
  for (const bool counted : {true, false}) {
    for (DeviceSpec& spec : *devices) {
      if (!spec.kind->takes_processors || !spec.cpus.empty() || (spec.threads > 0) != counted) {
        continue;
      }
      const std::vector<int> free = without(allowed, taken);
      const size_t wanted = counted ? static_cast<size_t>(spec.threads) : free.size();
      if (free.empty() || free.size() < wanted) {
        return bad(spec.text(), concat("only ", free.size(), " processors are left"));
      }
      spec.cpus.assign(free.end() - static_cast<int64_t>(wanted), free.end());
      taken.insert(spec.cpus.begin(), spec.cpus.end());
    }
  }
  for (DeviceSpec& spec : *devices) {
    if (spec.kind->takes_processors) spec.threads = static_cast<int>(spec.cpus.size());
  }
  return absl::OkStatus();
}

}  // namespace lw
