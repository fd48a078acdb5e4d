// What is kept of probes, and what targets take of them.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "src/base/check.h"
#include "src/base/files.h"
#include "src/base/hash.h"
#include "src/base/message.h"
#include "src/measure/simt/opencl_probe.h"

namespace lw {
namespace {

constexpr struct {
  const char* name;
  double OpenClProbe::*figure;
} kFigures[] = {{"fma_gflops", &OpenClProbe::fma_gflops},
                {"local_gbytes", &OpenClProbe::local_gbytes},
                {"barrier_us", &OpenClProbe::barrier_us},
                {"launch_us", &OpenClProbe::launch_us},
                {"group_us", &OpenClProbe::group_us},
                {"took_s", &OpenClProbe::took_s}};
constexpr double kLeast = 1e-6, kMost = 1e9;   // of a figure that is to be believed

std::string probe_path(const OpenClDevice& device) {
  const std::string folder = default_state_folder();
  if (folder.empty()) return "";
  return concat(folder, "/opencl-", sha256(device.release()).substr(0, 16), ".json");
}

bool is_there(double figure) { return figure >= kLeast && figure <= kMost; }

// 1, 1.5, 2.2, 3.3, 4.7, 6.8, 10: the nearest.
double stepped(double figure) {
  constexpr double kSteps[] = {1, 1.5, 2.2, 3.3, 4.7, 6.8, 10};
  const double power = std::pow(10, std::floor(std::log10(figure)));
  double best = 1;
  for (const double step : kSteps) {
    if (std::abs(std::log(step * power / figure)) < std::abs(std::log(best * power / figure))) {
      best = step;
    }
  }
  // (Not 4.7 * .1, which is .47000000000000003.)
  return std::stod(absl::StrCat(best * power));
}

}  // namespace

std::string to_json(const OpenClProbe& probe) {
  nlohmann::ordered_json json;
  json["copies"] = nlohmann::ordered_json::array();
  for (const OpenClProbe::Copy& copy : probe.copies) {
    json["copies"].push_back({{"width", copy.width}, {"gbytes", copy.gbytes}});
  }
  json["reads"] = nlohmann::ordered_json::array();
  for (const OpenClProbe::Read& read : probe.reads) {
    json["reads"].push_back({{"bytes", read.bytes}, {"gbytes", read.gbytes}});
  }
  json["barrier_items"] = probe.barrier_items;
  for (const auto& row : kFigures) json[row.name] = probe.*row.figure;
  return json.dump(1) + "\n";
}

absl::StatusOr<OpenClProbe> parse_probe(std::string_view text) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const absl::Status wrong = absl::InvalidArgumentError("no probe of an OpenCL device");
  if (!json.is_object() || !json.contains("copies") || !json["copies"].is_array()) return wrong;
  bool ok = true;
  const auto number = [&ok](const nlohmann::json& of, const char* name) {
    ok = ok && of.is_object() && of.contains(name) && of[name].is_number();
    return ok ? of[name].get<double>() : 0;
  };
  OpenClProbe probe;
  for (const nlohmann::json& copy : json["copies"]) {
    const double width = number(copy, "width");
    ok = ok && width >= 1 && width <= 64;
    if (ok) probe.copies.push_back({static_cast<int>(width), number(copy, "gbytes")});
  }
  // (Probes of before have none.)
  for (const nlohmann::json& read : json.value("reads", nlohmann::json::array())) {
    const double bytes = number(read, "bytes");
    ok = ok && bytes >= 1 && bytes <= 1e15;
    if (ok) probe.reads.push_back({static_cast<int64_t>(bytes), number(read, "gbytes")});
  }
  const double items = number(json, "barrier_items");
  ok = ok && items >= 0 && items <= 65536;
  if (ok) probe.barrier_items = static_cast<int>(items);
  for (const auto& row : kFigures) probe.*row.figure = number(json, row.name);
  if (!ok) return wrong;
  return probe;
}

absl::Status keep_probe(const OpenClDevice& device, const OpenClProbe& probe) {
  const std::string path = probe_path(device);
  if (path.empty()) return absl::UnavailableError("no folder: neither XDG_STATE_HOME nor HOME");
  return place_file(path, to_json(probe));
}

std::optional<OpenClProbe> kept_probe(const OpenClDevice& device) {
  const std::string path = probe_path(device);
  if (path.empty()) return std::nullopt;
  const absl::StatusOr<std::string> text = read_file(path);
  if (!text.ok()) return std::nullopt;
  absl::StatusOr<OpenClProbe> probe = parse_probe(*text);
  if (!probe.ok()) return std::nullopt;
  return *std::move(probe);
}

std::optional<OpenClProbe::Read> shared_cache(const OpenClProbe& probe) {
  constexpr double kMuchFaster = 1.3;
  if (probe.reads.empty()) return std::nullopt;
  const double near = probe.reads.front().gbytes, far = probe.reads.back().gbytes;
  if (!is_there(near) || !is_there(far) || near < kMuchFaster * far) return std::nullopt;
  OpenClProbe::Read cache = {0, near};
  for (const OpenClProbe::Read& read : probe.reads) {
    if (read.gbytes < std::sqrt(near * far)) break;
    cache.bytes = read.bytes;
  }
  return cache;
}

void apply_probe(const OpenClDevice& device, const OpenClProbe& probe, Target* target,
                 SimtTarget* part) {
  if (is_there(probe.launch_us)) part->launch_us = stepped(probe.launch_us);
  if (is_there(probe.group_us)) part->group_us = stepped(probe.group_us);
  if (is_there(probe.barrier_us) && probe.barrier_items > 0) {
    part->barrier_us =
        stepped(probe.barrier_us / std::ceil(static_cast<double>(probe.barrier_items) / part->simd));
  }
  if (device.is_processor()) return;
  double copy = 0;
  for (const OpenClProbe::Copy& one : probe.copies) copy = std::max(copy, one.gbytes);
  if (is_there(copy) && !target->caches.empty()) {
    CacheLevel& memory = target->caches.back();
    memory.read_bytes_per_cycle = memory.write_bytes_per_cycle = stepped(copy / target->ghz);
    const std::optional<OpenClProbe::Read> shared = shared_cache(probe);
    for (CacheLevel& level : target->caches) {
      if (!level.shared || &level == &memory) continue;
      // Where it did not show it is no slower than what lies behind it.
      double rate = std::max(level.read_bytes_per_cycle, memory.read_bytes_per_cycle);
      if (shared) rate = stepped(shared->gbytes / target->ghz), level.bytes = shared->bytes;
      level.read_bytes_per_cycle = level.write_bytes_per_cycle = rate;
    }
  }
  for (Atom& atom : target->atoms) {
    if (atom.acc != Type::kF32 || !is_there(probe.fma_gflops)) continue;
    atom.per_cycle = stepped(probe.fma_gflops / (2.0 * atom.lanes * atom.group * target->ghz * part->units));
  }
}

}  // namespace lw
