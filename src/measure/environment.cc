#include "src/measure/environment.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"

namespace lw {
namespace {

constexpr char kPeak[] = "peak_gflops", kBandwidth[] = "bandwidth_gbytes_per_s",
               kInstructions[] = "instructions_g_per_s";

// As members.
std::string limits_json(const Limits& limits) {
  const nlohmann::json json = {{kPeak, limits.peak_gflops},
                               {kBandwidth, limits.bandwidth_gbytes},
                               {kInstructions, limits.instructions}};
  const std::string text = json.dump();
  return text.substr(1, text.size() - 2);
}

// Whole numbers as such.
std::string counters_json(const std::vector<std::pair<std::string, double>>& counters) {
  nlohmann::json json = nlohmann::json::object();
  for (const auto& [name, value] : counters) {
    const bool whole = std::fabs(value) < 1e15 && value == std::floor(value);
    if (whole) json[name] = static_cast<int64_t>(value);
    else json[name] = value;
  }
  return json.dump();
}

std::optional<Limits> parse_limits(const nlohmann::json& json) {
  const auto rates = json.find(kInstructions);
  if (rates == json.end() || !rates->is_object()) return std::nullopt;
  const auto number = [&](const char* name) {
    const auto it = json.find(name);
    return it != json.end() && it->is_number() ? it->get<double>() : 0.0;
  };
  Limits limits;
  limits.peak_gflops = number(kPeak);
  limits.bandwidth_gbytes = number(kBandwidth);
  for (const auto& [name, rate] : rates->items()) {
    if (rate.is_number()) limits.instructions[name] = rate.get<double>();
  }
  return limits;
}

}  // namespace

std::string to_json(const Environment& e) {
  std::string text;
  if (!e.emulator.empty()) {
    text = absl::StrFormat(
        "{\"emulated\":true,\"emulator\":\"%s\",\"estimated\":true,\"threads\":%d", e.emulator,
        e.threads);
  } else if (!e.simulator.empty()) {
    text = absl::StrFormat("{\"simulated\":true,\"simulator\":\"%s\",\"isolation\":%s", e.simulator,
                           e.isolation);
    if (!e.counters.empty()) absl::StrAppend(&text, ",\"counters\":", counters_json(e.counters));
  } else if (!e.board.empty()) {
    text = absl::StrFormat("{\"board\":\"%s\",\"cache\":\"%s\",\"threads\":%d", e.board,
                           cache_name(e.cache), e.threads);
    if (!e.counters.empty()) absl::StrAppend(&text, ",\"counters\":", counters_json(e.counters));
  } else {
    text = absl::StrFormat(
        "{\"cache\":\"%s\",\"cpus\":[%s],\"parted\":%s,\"threads\":%d,\"timer_ns\":%.0f,%s,"
        "\"isolation\":%s",
        cache_name(e.cache), absl::StrJoin(e.cpus, ","), e.parted ? "true" : "false", e.threads,
        e.timer_ns, e.hygiene, e.isolation);
  }
  if (!e.oracle.empty()) {
    std::string quoted;
    for (char c : e.oracle) quoted += c == '"' || c == '\\' || c < ' ' ? '\'' : c;
    absl::StrAppend(&text, ",\"oracle\":\"", quoted, "\"");
  }
  if (!e.error.empty()) absl::StrAppend(&text, ",\"error\":", e.error);
  if (e.limits) absl::StrAppend(&text, ",", limits_json(*e.limits));
  return text + "}";
}

Environment parse_environment(std::string_view text) {
  Environment environment;
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return environment;
  if (const auto error = json.find("error"); error != json.end()) environment.error = error->dump();
  environment.limits = parse_limits(json);
  if (const auto counters = json.find("counters"); counters != json.end() && counters->is_object()) {
    for (const auto& [name, value] : counters->items()) {
      if (value.is_number()) environment.counters.emplace_back(name, value.get<double>());
    }
  }
  return environment;
}

}  // namespace lw
