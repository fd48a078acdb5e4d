// Whole networks on the machines that are shaped like VTA and Gemmini (gate V6): ResNet-18, 34 and
// 50 layer by layer, each by the best of many tilings of its matrix product, and what share of the
// array's products is used, beside what was published for the two. Exits 1 if a share leaves the
// band in which those lie.
//   lw_npu_networks [layers]     # `layers`: a line for each layer too
//
// A convolution is the product of its windows, as rows that lie in DRAM ready, and its weights.
// That moves more bytes than windows out of SPM would, up to 9 times the image. What is not there
// at all: making those rows, pooling, the sums of residuals, a host that issues instructions too
// slowly, and whatever a network does between layers, of which one begins when the one before has
// been written.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "src/base/check.h"
#include "src/npu/programs/gemm.h"
#include "src/npu/timing/timing.h"

namespace lw::npu {
namespace {

constexpr double kLeastUse = .45, kMostUse = .95;

struct Layer {
  std::string name;
  int64_t m, n, k;
  int64_t count = 1;
  bool on_host = false;                    // in VTA's figures: conv1 and the classifier

  int64_t macs() const { return m * n * k * count; }
};

// v1.5: a bottleneck's stride is in its 3 x 3.
std::vector<Layer> resnet(const std::vector<int>& blocks, bool bottleneck) {
  std::vector<Layer> layers;
  const auto add = [&](const std::string& name, int64_t size, int64_t in, int64_t window,
                       int64_t out, bool on_host = false) {
    const Layer layer = {name, size * size, out, in * window * window, 1, on_host};
    for (Layer& one : layers) {
      if (one.m != layer.m || one.n != layer.n || one.k != layer.k) continue;
      ++one.count;
      return;
    }
    layers.push_back(layer);
  };
  add("conv1", 112, 3, 7, 64, true);
  int64_t in = 64;
  for (int stage = 0; stage < 4; ++stage) {
    const int64_t size = 56 >> stage, width = int64_t{64} << stage;
    const int64_t out = bottleneck ? 4 * width : width;
    const std::string name = "c" + std::to_string(stage + 2);
    for (int block = 0; block < blocks[stage]; ++block) {
      const bool strided = stage > 0 && block == 0;
      if (bottleneck) {
        add(name + " 1x1 in", strided ? 2 * size : size, in, 1, width);
        add(name + " 3x3", size, width, 3, width);
        add(name + " 1x1 out", size, width, 1, out);
      } else {
        add(name + (strided ? " 3x3 in" : " 3x3"), size, in, 3, width);
        add(name + " 3x3", size, width, 3, width);
      }
      if (in != out) add(name + " skip", size, in, 1, out);
      in = out;
    }
  }
  layers.push_back({"fc", 1, 1000, in, 1, true});
  return layers;
}

int64_t up(int64_t value, int64_t of) { return (value + of - 1) / of; }

// Cycles that no program of the plan beats.
double bound(const Config& config, const GemmPlan& plan) {
  const GemmTraffic traffic = gemm_traffic(plan);
  const double bytes = static_cast<double>(traffic.read + traffic.written);
  const int64_t rows = config.mx.rows, columns = config.mx.columns;
  const bool pipelined = config.mx.mode == ArrayMode::kPipelined;
  double folds = 0;
  for (int64_t k0 = 0; k0 < plan.k; k0 += plan.tile_k) {
    const int64_t k = std::min(plan.tile_k, plan.k - k0);
    for (int64_t m0 = 0; m0 < plan.m; m0 += plan.tile_m) {
      const int64_t m = std::min(plan.tile_m, plan.m - m0);
      const int64_t least = pipelined ? rows : 1;
      for (int64_t f = 0; f < m; f += plan.fold_m) {
        folds += plan.output_stationary
                     ? std::max(k, least)
                     : up(k, rows) * std::max(std::min(plan.fold_m, m - f), least);
      }
    }
  }
  int64_t blocks = 0;                      // of columns, in each tile of them
  for (int64_t n = 0; n < plan.n; n += plan.tile_n) {
    blocks += up(std::min(plan.tile_n, plan.n - n), columns);
  }
  double array = folds * blocks;
  if (config.mx.mode == ArrayMode::kDirect) {              // which takes turns with VE
    array += static_cast<double>(plan.m * up(plan.n, config.ve.lanes)) * config.ve.cpi.req;
  }
  return std::max(array, bytes / peak_bytes_per_cycle(config));
}

struct Best {
  int64_t cycles = 0, tilings = 0, simulated = 0;
  GemmPlan plan;
};

// All tilings into nearly equal parts; those whose bound is no better than what was found need not
// be simulated, so that the best of them is exact.
Best sweep(const Config& config, const Layer& layer) {
  const int64_t align_k = config.align.k, align_n = config.align.n;
  const auto parts = [](int64_t extent, int64_t of) {
    std::vector<int64_t> tiles;
    for (int64_t count = 1; count <= up(extent, of); count += count < 8 ? 1 : count / 4) {
      const int64_t tile = up(up(extent, count), of) * of;
      if (tiles.empty() || tiles.back() != tile) tiles.push_back(tile);
    }
    return tiles;
  };
  GemmPlan plan;
  plan.m = layer.m;
  plan.n = layer.n;
  plan.k = up(layer.k, align_k) * align_k;
  std::vector<std::pair<double, GemmPlan>> plans;
  for (const int64_t tile_m : parts(plan.m, 1)) {
    for (const int64_t tile_n : parts(plan.n, align_n)) {
      for (const int64_t tile_k : parts(plan.k, align_k)) {
        plan.tile_m = tile_m;
        plan.tile_n = tile_n;
        plan.tile_k = tile_k;
        for (const bool output_stationary : {false, true}) {
          plan.output_stationary = output_stationary;
          plan.fold_m = output_stationary ? std::min(tile_m, config.mx.rows) : tile_m;
          plans.emplace_back(bound(config, plan), plan);
        }
      }
    }
  }
  std::stable_sort(plans.begin(), plans.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  Best best;
  best.tilings = static_cast<int64_t>(plans.size());
  for (const auto& [least, candidate] : plans) {
    if (best.cycles > 0 && least >= best.cycles) break;
    const absl::StatusOr<Program> program = make_gemm(config, candidate);
    if (!program.ok()) continue;           // does not fit
    const absl::StatusOr<Timing> timing = simulate(config, *program);
    CHECK(timing.ok() && timing->ending == Ending::kDone);
    ++best.simulated;
    if (best.cycles > 0 && timing->cycles >= best.cycles) continue;
    best.cycles = timing->cycles;
    best.plan = candidate;
  }
  CHECK(best.cycles > 0);
  return best;
}

struct Sum {
  double macs = 0, cycles = 0;

  void add(const Layer& layer, const Best& best) {
    macs += static_cast<double>(layer.macs());
    cycles += static_cast<double>(layer.count * best.cycles);
  }
  double use(const Config& config) const {
    return macs / (config.mx.rows * config.mx.columns) / cycles;
  }
};

using Known = std::map<std::array<int64_t, 3>, Best>;      // networks share layers

bool network(const Config& config, const char* name, const std::vector<Layer>& layers,
             const char* published, bool host_helps, bool prints_layers, Known* known) {
  Sum all, inner;
  int64_t tilings = 0, simulated = 0;
  for (const Layer& layer : layers) {
    const auto [found, is_new] = known->try_emplace({layer.m, layer.n, layer.k});
    if (is_new) found->second = sweep(config, layer);
    const Best& best = found->second;
    all.add(layer, best);
    if (!layer.on_host) inner.add(layer, best);
    tilings += best.tilings;
    simulated += best.simulated;
    if (!prints_layers) continue;
    Sum one;
    one.add(layer, best);
    const GemmPlan& p = best.plan;
    std::printf("  %-11s %2d of %5d x %4d x %4d  %9d cycles  %5.1f %%  tiles %4d x %4d x %4d%s\n",
                layer.name.c_str(), int(layer.count), int(layer.m), int(layer.n), int(layer.k),
                int(best.cycles), 100 * one.use(config), int(p.tile_m), int(p.tile_n),
                int(p.tile_k), p.output_stationary ? " os" : "");
  }
  const double use = (host_helps ? inner : all).use(config);
  const bool met = use >= kLeastUse && use <= kMostUse;
  std::printf("%-8s %-9s  %11.0f cycles  %5.1f %%   without conv1 and fc %11.0f  %5.1f %%   "
              "published %s   %s\n",
              config.name.c_str(), name, all.cycles, 100 * all.use(config), inner.cycles,
              100 * inner.use(config), published, met ? "met" : "missed");
  std::printf("         %lld tilings, %lld of them simulated\n", static_cast<long long>(tilings),
              static_cast<long long>(simulated));
  std::fflush(stdout);
  return met;
}

}  // namespace
}  // namespace lw::npu

int main(int argc, char** argv) {
  using namespace lw::npu;
  const bool prints_layers = argc > 1 && std::strcmp(argv[1], "layers") == 0;
  std::printf("share of the array's products that is used; simulated; 45 to 95 %% is aimed at\n");
  const struct {
    const char* name;
    std::vector<int> blocks;
    bool bottleneck;
    const char *vta, *gemmini;
  } networks[] = {{"ResNet-18", {2, 2, 2, 2}, false, "86 %, without", "-"},
                  {"ResNet-34", {3, 4, 6, 3}, false, "88 %, without", "-"},
                  {"ResNet-50", {3, 4, 6, 3}, true, "70 %, without", "40 to 51 %, all"}};
  bool met = true;
  for (const char* machine : {"vta16", "edge16g"}) {
    const absl::StatusOr<Config> config = find_config(machine);
    CHECK(config.ok());
    const bool vta = config->name == "vta16";
    Known known;
    for (const auto& one : networks) {
      met &= network(*config, one.name, resnet(one.blocks, one.bottleneck),
                     vta ? one.vta : one.gemmini, vta, prints_layers, &known);
    }
  }
  return met ? 0 : 1;
}
