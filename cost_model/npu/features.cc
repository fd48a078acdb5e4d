// The features of nests for NPUs: of the stage that takes longest, with what the machine is, so that
// one model serves several configurations. Counts are logarithms, shares plain.
#include <algorithm>
#include <cmath>

#include "cost_model/npu/model.h"
#include "schedules/targets/npu/npu_target.h"
#include "src/base/hash.h"

namespace lw::cost::npu {
namespace {

using lw::npu::Config;

float log1(double x) { return static_cast<float>(std::log2(1 + std::max(0.0, x))); }
float share(double a, double b) { return static_cast<float>(b > 0 ? a / b : 0); }

struct Facts {
  StageTimes main;
  double cycles = 0;                       // of all stages
  const Config& config;
};

struct Row {
  const char* name;
  float (*value)(const Facts& f);
  bool predicted = false;
};

constexpr bool kPredicted = true;

const Row kTable[] = {
    {"log_draft_us", [](const Facts& f) {
       return static_cast<float>(std::log2(std::max(1.0, f.cycles) / f.config.clock_mhz));
     }, kPredicted},
    {"array_share", [](const Facts& f) { return share(f.main.array, f.main.cycles); }, kPredicted},
    {"load_a_share", [](const Facts& f) { return share(f.main.load_a, f.main.cycles); }, kPredicted},
    {"load_b_share", [](const Facts& f) { return share(f.main.load_b, f.main.cycles); }, kPredicted},
    {"store_share", [](const Facts& f) { return share(f.main.store, f.main.cycles); }, kPredicted},
    {"fill_share", [](const Facts& f) { return share(f.main.fill, f.main.cycles); }, kPredicted},
    {"drain_share", [](const Facts& f) { return share(f.main.drain, f.main.cycles); }, kPredicted},
    {"dispatch_share", [](const Facts& f) {
       return share(f.main.instructions * static_cast<double>(f.config.queues.dispatch),
                    f.main.cycles);
     }, kPredicted},
    {"array_use", [](const Facts& f) {
       return share(f.main.macs, f.main.array * static_cast<double>(f.config.mx.rows *
                                                                    f.config.mx.columns));
     }},
    {"overlapped", [](const Facts& f) { return static_cast<float>(f.main.overlapped); }},
    {"instructions", [](const Facts& f) { return log1(f.main.instructions); }},
    {"folds", [](const Facts& f) { return log1(f.main.folds); }},
    {"weight_loads_per_fold", [](const Facts& f) { return share(f.main.weight_loads, f.main.folds); }},
    {"output_stationary", [](const Facts& f) { return f.main.output_stationary ? 1.f : 0.f; }},
    {"rows", [](const Facts& f) { return log1(f.main.rows); }},
    {"columns_used", [](const Facts& f) {
       return share(f.main.columns, static_cast<double>(f.config.mx.columns));
     }},
    {"sums_used", [](const Facts& f) {
       return share(f.main.sums, static_cast<double>(f.config.mx.rows));
     }},
    {"tile_rows", [](const Facts& f) { return log1(f.main.tile_rows); }},
    {"tile_columns", [](const Facts& f) { return log1(f.main.tile_columns); }},
    {"tile_sums", [](const Facts& f) { return log1(f.main.tile_sums); }},
    {"slots_a", [](const Facts& f) { return static_cast<float>(f.main.slots_a); }},
    {"slots_b", [](const Facts& f) { return static_cast<float>(f.main.slots_b); }},
    {"slots_held", [](const Facts& f) { return static_cast<float>(f.main.slots_held); }},
    {"spm_share", [](const Facts& f) { return static_cast<float>(f.main.spm_share); }},
    {"acc_share", [](const Facts& f) { return static_cast<float>(f.main.acc_share); }},
    {"bytes_a", [](const Facts& f) { return log1(f.main.bytes_a); }},
    {"bytes_b", [](const Facts& f) { return log1(f.main.bytes_b); }},
    {"bytes_stored", [](const Facts& f) { return log1(f.main.bytes_stored); }},
    {"run_a", [](const Facts& f) { return log1(f.main.run_a); }},
    {"run_b", [](const Facts& f) { return log1(f.main.run_b); }},
    {"run_stored", [](const Facts& f) { return log1(f.main.run_stored); }},
    {"macs", [](const Facts& f) { return log1(f.main.macs); }},
    {"array_rows", [](const Facts& f) { return log1(static_cast<double>(f.config.mx.rows)); }},
    {"array_columns", [](const Facts& f) { return log1(static_cast<double>(f.config.mx.columns)); }},
    {"spm_bytes", [](const Facts& f) { return log1(static_cast<double>(f.config.spm.bytes)); }},
    {"acc_bytes", [](const Facts& f) { return log1(static_cast<double>(f.config.acc.bytes)); }},
    {"peak_bytes", [](const Facts& f) {
       return log1(std::min(1e6, lw::npu::peak_bytes_per_cycle(f.config)));
     }},
    {"dma_setup", [](const Facts& f) { return log1(static_cast<double>(f.config.dma.setup)); }},
    {"queue_depth", [](const Facts& f) { return log1(static_cast<double>(f.config.queues.depth)); }},
};

Facts facts_of(const Nest& nest) {
  Facts facts{{}, 0, npu_config(*nest.target)};
  for (const StageTimes& times : stage_times(nest)) {
    facts.cycles += times.cycles;
    if (times.cycles > facts.main.cycles) facts.main = times;
  }
  return facts;
}

}  // namespace

const std::vector<Feature>& table() {
  static const std::vector<Feature>* table = [] {
    auto* list = new std::vector<Feature>;
    for (const Row& row : kTable) list->push_back({row.name, row.predicted});
    return list;
  }();
  return *table;
}

std::vector<float> features(const Nest& nest) {
  const Facts facts = facts_of(nest);
  std::vector<float> values;
  values.reserve(std::size(kTable));
  for (const Row& row : kTable) values.push_back(row.value(facts));
  return values;
}

double draft_us(const Nest& nest) {
  const Facts facts = facts_of(nest);
  return std::max(1.0, facts.cycles) / facts.config.clock_mhz;
}

uint64_t kind(uint64_t hash, const std::vector<float>& features) {
  // Tiles of about the same size.
  for (const char* name : {"tile_rows", "tile_columns", "tile_sums"}) {
    for (size_t i = 0; i < std::size(kTable); ++i) {
      if (std::string_view(kTable[i].name) == name) {
        hash = hash_combine(hash, static_cast<uint64_t>(std::lround(features[i])));
      }
    }
  }
  return hash;
}

}  // namespace lw::cost::npu
