// ONNXim's tilings beside ours: each of its runs of a matrix product (tests/npu/data) as a schedule
// of ours, two slots of operands and of results, sums innermost, and the best that a search finds,
// both on the machine that stands for its configuration. Results leave as i8 (bf16), as there. For
// each row, in cycles:
//   onnxim    what ONNXim took
//   replayed  its tiling as our schedule; 0: biases, scales and two slots have no room
//   plain     its tiling by the generator that the gates against ONNXim are passed with, which
//             fetches all operands again for each tile, and never biases and scales
//   tuned     the best of a search
//   bound     multipliers and compulsory bytes, whichever takes longer
//   gain      replayed (plain where that is 0) / tuned
//   over      plain / tuned
//   most      plain / bound: what no schedule can be above
// Deterministic: times are computed. Exits 1 where a row's gain is below 1, or the mean of those
// that DRAM limits below 1.15.
//   lw_npu_tilings TABLE.csv [--trials=N]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "absl/strings/str_format.h"
#include "bench/npu/timed.h"
#include "loopwright/bounds.h"
#include "schedules/steps.h"
#include "schedules/targets/npu/npu_target.h"
#include "src/base/files.h"
#include "src/npu/compare/table.h"
#include "src/npu/programs/gemm.h"
#include "src/npu/timing/timing.h"

namespace lw {
namespace {

constexpr double kLeastGain = 1.15;        // geometric mean of what DRAM limits
constexpr int64_t kMost = 65535;

const std::map<std::string, std::string>& machines() {
  static const std::map<std::string, std::string> all = {
      {"big128_int8", "npu_onnxim128"},         {"mid32_int8", "npu_onnxim32"},
      {"edge16_int8", "npu_onnxim16"},          {"big128_int8_ch1", "npu_onnxim128_ch1"},
      {"big128_int8_ch4", "npu_onnxim128_ch4"}, {"big128_bf16", "npu_onnxim128_bf16"}};
  return all;
}

struct Row {
  std::string config;
  int64_t m, n, k, tile_m, tile_n, tile_k;
  double cycles, lb_array, lb_dma;
  bool by_dram() const { return lb_dma >= lb_array; }  // lb_array is at least lb_macs
};

absl::StatusOr<std::vector<Row>> read_rows(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, read_file(path));
  ASSIGN_OR_RETURN(const npu::Table table, npu::parse_table(text, path));
  ASSIGN_OR_RETURN(const size_t config, npu::find_column(table, "config"));
  std::vector<Row> rows;
  for (const npu::Table::Row& fields : table.rows) {
    Row row;
    row.config = fields.fields[config];
    for (const auto& [name, value] :
         {std::pair("m", &row.m), std::pair("n", &row.n), std::pair("k", &row.k),
          std::pair("tile_m", &row.tile_m), std::pair("tile_n", &row.tile_n),
          std::pair("tile_k", &row.tile_k)}) {
      ASSIGN_OR_RETURN(const size_t column, npu::find_column(table, name));
      ASSIGN_OR_RETURN(*value, npu::read_whole(table, fields, column, 1, kMost));
    }
    for (const auto& [name, value] :
         {std::pair("onnxim_cycles", &row.cycles), std::pair("lb_array", &row.lb_array),
          std::pair("lb_dma", &row.lb_dma)}) {
      ASSIGN_OR_RETURN(const size_t column, npu::find_column(table, name));
      ASSIGN_OR_RETURN(*value, npu::read_number(table, fields, column, 0));
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

// The product, its results as ONNXim stores them.
std::string text_of(const Row& row) {
  const bool bf16 = row.config.ends_with("bf16");
  const char* type = bf16 ? "bf16" : "i8";
  return absl::StrFormat(
      "op product(M = %d, N = %d, K = %d) {\n  in A: %s[M, K]\n  in B: %s[K, N] const\n%s"
      "  C[i: M, j: N] = sum[k: K](%s)\n  out Y[i: M, j: N] = %s\n}\n",
      row.m, row.n, row.k, type, type, bf16 ? "" : "  in bias: i32[N]\n  in scale: f32[N]\n",
      bf16 ? "A[i, k] * B[k, j]" : "cast(i32, A[i, k]) * cast(i32, B[k, j])",
      bf16 ? "cast(bf16, C[i, j])"
           : "cast(i8, clamp(round(cast(f32, C[i, j] + bias[j]) * scale[j]), -128, 127))");
}

// Its tiles: instructions of as many rows, columns and sums as the array has, m outermost, then n,
// then k. 0: it has no program.
absl::StatusOr<double> replayed_us(const Task& task, const Row& row) {
  const Atom& array = task.target()->atoms.front();
  const int64_t rows = array.group, columns = array.lanes;
  const auto count = [](int64_t extent, int64_t tile, int64_t of) {
    return (std::min(extent, tile) + of - 1) / of;
  };
  for (const Sketch& sketch : make_space(task.start())) {
    if (sketch.name.find("finished") == std::string::npos) continue;
    Trace trace = sketch.steps;
    for (Step& step : trace) {
      const std::string_view kind = step.kind->name;
      if (kind == "block_tile") {
        step.numbers = {count(row.m, row.tile_m, rows), count(row.n, row.tile_n, columns),
                        count(row.k, row.tile_k, rows), rows};
      } else if (kind == "stream") {
        step.numbers = {0, 2, 2, 2, 0};
      } else if (kind == "reorder") {
        step.numbers = {0};
      }
    }
    const absl::StatusOr<Nest> nest = replay(task.start(), trace);
    if (!nest.ok()) return 0;              // no room
    return us_of(task, *nest);
  }
  return absl::NotFoundError("no sketch that finishes the product where it is held");
}

// The same by the simulator's own generator, which the gates against ONNXim are passed with.
absl::StatusOr<double> plain_us(const Task& task, const Row& row) {
  const npu::Config& config = npu_config(*task.target());
  npu::GemmPlan plan;
  plan.m = row.m, plan.n = row.n, plan.k = row.k;
  plan.tile_m = row.tile_m, plan.tile_n = row.tile_n, plan.tile_k = row.tile_k;
  plan.fold_m = config.mx.rows;
  plan.dtype = config.mx.dtypes[0];
  ASSIGN_OR_RETURN(const npu::Program program, npu::make_gemm(config, plan));
  ASSIGN_OR_RETURN(const npu::Timing timing, npu::simulate(config, program));
  return timing.ns / 1000;
}

struct Gains {
  Means gain, over, most;
  int behind = 0;
  void add(double one, double other, double limit) {
    gain.add(one);
    over.add(other);
    most.add(limit);
    behind += one < 1;
  }
  void print(const char* which) const {
    std::printf("geometric means of %d rows that %s: gain %.3f, over plain %.3f (at most %.3f); "
                "%d behind\n",
                gain.count, which, gain.mean(), over.mean(), most.mean(), behind);
  }
};

absl::StatusOr<bool> run(const std::string& path, int trials) {
  ASSIGN_OR_RETURN(const std::vector<Row> rows, read_rows(path));
  std::printf("%-16s %5s %5s %5s %14s %9s %9s %9s %9s %9s %5s %6s %6s %6s\n", "config", "M", "N",
              "K", "tile", "onnxim", "replayed", "plain", "tuned", "bound", "limit", "gain", "over",
              "most");
  Gains dram, array;
  for (const Row& row : rows) {
    const auto machine = machines().find(row.config);
    if (machine == machines().end())
      return absl::InvalidArgumentError(path + ": no machine for " + row.config);
    ASSIGN_OR_RETURN(const std::shared_ptr<const Target> target, load_target(machine->second));
    ASSIGN_OR_RETURN(const Task task, make_layer(text_of(row), "product", target));
    ASSIGN_OR_RETURN(const double replayed, replayed_us(task, row));
    ASSIGN_OR_RETURN(const double plain, plain_us(task, row));
    ASSIGN_OR_RETURN(const TuneResult result, search(task, trials));
    ASSIGN_OR_RETURN(const Bound bound, measure_bound(task));
    const double tuned = result.best.measurement.time_us;
    const double gain = (replayed > 0 ? replayed : plain) / tuned;
    (row.by_dram() ? dram : array).add(gain, plain / tuned, plain / bound.bound_us);
    absl::PrintF("%-16s %5d %5d %5d %14s %9.0f %9.0f %9.0f %9.0f %9.0f %5s %6.3f %6.3f %6.3f%s\n",
                 row.config, row.m, row.n, row.k,
                 absl::StrFormat("%dx%dx%d", row.tile_m, row.tile_n, row.tile_k), row.cycles,
                 cycles_of(task, replayed), cycles_of(task, plain), cycles_of(task, tuned),
                 cycles_of(task, bound.bound_us), row.by_dram() ? "DRAM" : "array", gain,
                 plain / tuned, plain / bound.bound_us, gain < 1 ? "  behind" : "");
    std::fflush(stdout);
  }
  dram.print("DRAM limits");
  array.print("the array limits");
  std::printf("%.2f is aimed at where DRAM limits, none behind\n", kLeastGain);
  return dram.behind + array.behind == 0 && dram.gain.mean() >= kLeastGain;
}

}  // namespace
}  // namespace lw

int main(int argc, char** argv) {
  std::string path;
  int trials = 200;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.rfind("--trials=", 0) == 0) trials = std::atoi(word.c_str() + 9);
    else path = word;
  }
  if (path.empty()) {
    std::fprintf(stderr, "usage: lw_npu_tilings TABLE.csv [--trials=N]\n");
    return 2;
  }
  const absl::StatusOr<bool> met = lw::run(path, trials);
  if (!met.ok()) {
    std::fprintf(stderr, "%s\n", std::string(met.status().message()).c_str());
    return 2;
  }
  return *met ? 0 : 1;
}
