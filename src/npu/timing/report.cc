#include "src/npu/timing/report.h"

#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "src/base/message.h"
#include "src/npu/isa/text.h"

namespace lw::npu {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kBoundNames[] = {"mac", "array", "dma", "vector", "dispatch"};

std::array<double, 5> bound_values(const Bounds& b) {
  return {b.mac, b.array, b.dma, b.vector, b.dispatch};
}

}  // namespace

std::pair<std::string_view, double> limiting_bound(const Bounds& bounds) {
  const std::array<double, 5> values = bound_values(bounds);
  size_t largest = 0;
  for (size_t i = 1; i < values.size(); ++i) {
    if (values[i] > values[largest]) largest = i;
  }
  return {kBoundNames[largest], values[largest]};
}

std::string timing_text(const Config& config, const Timing& t) {
  const auto [limit, bound] = limiting_bound(t.bounds);
  std::string text = absl::StrFormat(
      "%s  %s after %d cycles, %.3f us at %.0f MHz (simulated); %d instructions\n", config.name,
      std::string(name_of(t.ending)), t.cycles, t.ns / 1000, config.clock_mhz, t.instructions);
  if (t.ending != Ending::kDone) return text + t.blocked;
  text += absl::StrFormat("bound %.0f cycles, set by %s: %.1f %% of it\n", bound,
                          std::string(limit), 100 * t.efficiency);
  text += absl::StrFormat("  %-8s %12s   waits for: %10s %12s %12s %12s\n", "", "busy", "tokens",
                          "dispatch", "itself", "buses");
  for (int e = 0; e < kEngines; ++e) {
    const Stalls& s = t.stalls[e];
    text += absl::StrFormat("  %-8s %12.0f              %10.0f %12.0f %12.0f %12.0f\n",
                            std::string(name_of(static_cast<Engine>(e))), t.busy[e], s.token,
                            s.dispatch, s.engine, s.bus);
  }
  text += absl::StrFormat("  dispatcher waited %.0f cycles for full queues\n", t.queue_full);
  text += absl::StrFormat(
      "  DRAM: %d bytes read, %d written, in %d requests; %d rows hit, %d opened\n", t.bytes_read,
      t.bytes_written, t.chunks, t.row_hits, t.activates);
  for (const auto& [id, cycle] : t.stamps) text += absl::StrFormat("  stamp %d at %d\n", id, cycle);
  return text;
}

std::vector<std::pair<std::string, double>> timing_counters(const Timing& t) {
  std::vector<std::pair<std::string, double>> all;
  const auto add = [&](const std::string& name, double value) {
    if (value != 0) all.emplace_back(name, value);
  };
  add("cycles", static_cast<double>(t.cycles));
  add("instructions", static_cast<double>(t.instructions));
  add("macs", static_cast<double>(t.macs));
  add("bytes_read", static_cast<double>(t.bytes_read));
  add("bytes_written", static_cast<double>(t.bytes_written));
  add("dram_bytes", static_cast<double>(t.dram_bytes));
  add("chunks", static_cast<double>(t.chunks));
  add("row_hits", static_cast<double>(t.row_hits));
  add("activates", static_cast<double>(t.activates));
  add("queue_full", t.queue_full);
  for (int e = 0; e < kEngines; ++e) {
    const std::string engine(name_of(static_cast<Engine>(e)));
    const Stalls& stalls = t.stalls[e];
    add("busy." + engine, t.busy[e]);
    add("stall." + engine + ".token", stalls.token);
    add("stall." + engine + ".dispatch", stalls.dispatch);
    add("stall." + engine + ".engine", stalls.engine);
    add("stall." + engine + ".bus", stalls.bus);
  }
  const std::array<double, 5> bounds = bound_values(t.bounds);
  for (size_t i = 0; i < bounds.size(); ++i) add(concat("bound.", kBoundNames[i]), bounds[i]);
  add("efficiency", t.efficiency);
  return all;
}

absl::Status check_ended(const Timing& timing) {
  if (timing.ending == Ending::kDone && timing.cycles > 0) return absl::OkStatus();
  if (timing.ending == Ending::kDone) return absl::DataLossError("the program does nothing");
  const std::string first = timing.blocked.substr(0, timing.blocked.find('\n'));
  return absl::DataLossError(concat(name_of(timing.ending), ": ", first));
}

std::string timing_json(const Config& config, const Timing& t) {
  Json json = {{"config", config.name},
               {"ending", std::string(name_of(t.ending))},
               {"cycles", t.cycles},
               {"ns", t.ns},
               {"simulated", true},
               {"instructions", t.instructions},
               {"macs", t.macs},
               {"bytes_read", t.bytes_read},
               {"bytes_written", t.bytes_written},
               {"dram_bytes", t.dram_bytes},
               {"chunks", t.chunks},
               {"row_hits", t.row_hits},
               {"activates", t.activates},
               {"queue_full", t.queue_full},
               {"efficiency", t.efficiency}};
  if (!t.blocked.empty()) json["blocked"] = t.blocked;
  const std::array<double, 5> bounds = bound_values(t.bounds);
  for (size_t i = 0; i < bounds.size(); ++i) json["bounds"][kBoundNames[i]] = bounds[i];
  for (int e = 0; e < kEngines; ++e) {
    const Stalls& s = t.stalls[e];
    json["engines"][std::string(name_of(static_cast<Engine>(e)))] = {
        {"busy", t.busy[e]},     {"wait_token", s.token}, {"wait_dispatch", s.dispatch},
        {"wait_self", s.engine}, {"wait_bus", s.bus}};
  }
  json["stamps"] = Json::array();
  for (const auto& [id, cycle] : t.stamps) json["stamps"].push_back({{"id", id}, {"cycle", cycle}});
  return json.dump(2) + "\n";
}

std::string timeline_json(const Config& config, const Program& program,
                          const std::vector<Span>& spans) {
  std::string text = "{\"traceEvents\":[\n";
  for (int e = 0; e < kEngines; ++e) {
    text += absl::StrFormat(
        "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":0,\"tid\":%d,"
        "\"args\":{\"name\":\"%s\"}},\n", e, std::string(name_of(static_cast<Engine>(e))));
  }
  for (const Span& span : spans) {
    const Instruction& one = program[span.instruction];
    text += absl::StrFormat(
        "{\"ph\":\"X\",\"name\":\"%s\",\"pid\":0,\"tid\":%d,\"ts\":%.4f,\"dur\":%.4f,\"args\":"
        "{\"instruction\":%d,\"text\":%s}},\n",
        std::string(one.op().name), static_cast<int>(span.engine),
        to_cycles(span.begin) / config.clock_mhz,
        to_cycles(span.end - span.begin) / config.clock_mhz, span.instruction,
        Json(print_instruction(one)).dump());
  }
  return text + absl::StrFormat(
      "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":0,\"args\":{\"name\":%s}}],"
      "\"displayTimeUnit\":\"ns\"}\n", Json(config.name + " (simulated)").dump());
}

}  // namespace lw::npu
