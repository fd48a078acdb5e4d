// SPM holds two slots of operands, two of results and the row of VE.REQ's scales; ACC two slots of
// sums. Tile t uses slot t % 2, so its loads wait until tile t - 2 has been computed (kOperands),
// its first MM until the sums of two tiles before have been requantised (kSums), and so on down the
// line.
#include "src/npu/programs/gemm.h"

#include <algorithm>

#include "src/base/check.h"
#include "src/base/message.h"
#include "src/npu/isa/check.h"

namespace lw::npu {
namespace {

// Who hands what to whom.
enum Token : uint8_t {
  kRowsLoaded,       // LD to MX
  kWeightsLoaded,    // LD to MX
  kOperands,         // MX to LD: a slot is free
  kSumsReady,        // MX to VE
  kSums,             // VE to MX (to LD if output stationary): a slot is free
  kResultReady,      // VE to ST
  kResults,          // ST to VE: a slot is free
};

constexpr int64_t kMostRows = 4095;        // of LD, ST and VE.REQ
constexpr int64_t kMostBytes = 65535;      // of a run

int64_t up(int64_t value, int64_t of) { return (value + of - 1) / of * of; }

class Generator {
 public:
  Generator(const Config& config, const GemmPlan& plan)
      : config_(config), plan_(plan), size_(size_of(plan.dtype)) {
    const int64_t align = config.spm.align;
    const bool os = plan.output_stationary;
    a_stride_ = up(plan.tile_k * size_, align);
    b_stride_ = up((os ? plan.tile_n : plan.tile_k) * size_, align);
    c_stride_ = up(plan.tile_n * size_, align);
    sums_stride_ = up(plan.tile_n, config.acc.align);
    const int64_t a = plan.tile_m * a_stride_, b = (os ? plan.tile_k : plan.tile_n) * b_stride_;
    a_ = 0;
    b_ = a;
    operands_ = a + b;
    const int64_t tiles = count(plan.m, plan.tile_m) * count(plan.n, plan.tile_n);
    const int64_t steps = tiles * count(plan.k, plan.tile_k);
    operand_slots_ = std::min<int64_t>(2, steps);
    slots_ = std::min<int64_t>(2, tiles);
    c_ = operand_slots_ * operands_;
    results_ = plan.tile_m * c_stride_;
    scales_ = c_ + slots_ * results_;
    sums_ = plan.tile_m * sums_stride_;
    a_dram_ = 0;
    b_dram_ = up(plan.m * plan.k * size_, 4096);
    c_dram_ = b_dram_ + up(plan.n * plan.k * size_, 4096);
  }

  Program make() {
    const std::vector<Tile> tiles = all_tiles();
    program_.reserve(instructions(tiles));
    load(tiles, 0);
    for (size_t t = 0; t < tiles.size(); ++t) {
      if (t + 1 < tiles.size()) load(tiles, t + 1);
      if (plan_.output_stationary) {
        compute_os(tiles, t);
      } else {
        compute(tiles, t);
      }
      if (tiles[t].last_k) store(tiles[t]);
    }
    program_.push_back({Halt()});
    return std::move(program_);
  }

 private:
  struct Tile {
    int64_t m0, n0, k0, m, n, k;
    int64_t output;                        // number of its tile of C
    bool first_k, last_k;
  };

  static int64_t count(int64_t extent, int64_t tile) { return (extent + tile - 1) / tile; }

  std::vector<Tile> all_tiles() const {
    std::vector<Tile> tiles;
    int64_t output = 0;
    for (int64_t m = 0; m < plan_.m; m += plan_.tile_m) {
      for (int64_t n = 0; n < plan_.n; n += plan_.tile_n, ++output) {
        for (int64_t k = 0; k < plan_.k; k += plan_.tile_k) {
          tiles.push_back({m, n, k, std::min(plan_.tile_m, plan_.m - m),
                           std::min(plan_.tile_n, plan_.n - n), std::min(plan_.tile_k, plan_.k - k),
                           output, k == 0, k + plan_.tile_k >= plan_.k});
        }
      }
    }
    return tiles;
  }

  size_t instructions(const std::vector<Tile>& tiles) const {
    const Tile& first = tiles.front();
    const int64_t blocks = count(first.m, plan_.fold_m) * count(first.n, config_.mx.columns);
    const int64_t folds = plan_.output_stationary ? 1 : 2 * count(first.k, config_.mx.rows);
    return tiles.size() * (blocks * (folds + 2) + 16) + 16;
  }

  Instruction& add(Body body) {
    program_.push_back({body});
    program_.back().dtype = plan_.dtype;
    return program_.back();
  }
  static void put(std::array<uint8_t, 2>* tokens, uint8_t id) {
    (*tokens)[(*tokens)[0] == kNoToken ? 0 : 1] = id;
  }

  // `rows` rows of `bytes`, in as many descriptors as that takes; the last one signals.
  void load_block(int64_t dram, int64_t dram_stride, int64_t loc, int64_t stride, int64_t rows,
                  int64_t bytes, Token token, std::array<uint8_t, 2>* wait) {
    for (int64_t row = 0; row < rows; row += kMostRows) {
      Ld ld;
      ld.dram = dram + row * dram_stride;
      ld.loc = loc + row * stride;
      ld.n0 = bytes;
      ld.n1 = std::min(kMostRows, rows - row);
      ld.dstr1 = dram_stride;
      ld.lstr1 = stride;
      Instruction& one = add(ld);
      std::swap(one.wait, *wait);
      if (row + kMostRows >= rows) put(&one.signal, token);
    }
  }

  void load(const std::vector<Tile>& tiles, size_t t) {
    const Tile& tile = tiles[t];
    const int64_t base = t % operand_slots_ * operands_;
    const int64_t columns = config_.mx.columns;
    // Of its first descriptor. (An MMOS reads rows and weights: it cannot wait for a third token.)
    std::array<uint8_t, 2> wait = {kNoToken, kNoToken};
    if (t >= 2) put(&wait, kOperands);
    if (plan_.output_stationary && reuses_sums(tile)) put(&wait, kSums);
    for (int64_t n = 0; n < tile.n; n += columns) {
      const int64_t width = std::min(columns, tile.n - n);
      if (plan_.output_stationary) {
        load_block(b_dram_ + (tile.k0 * plan_.n + tile.n0 + n) * size_, plan_.n * size_,
                   base + b_ + n * size_, b_stride_, tile.k, width * size_, kWeightsLoaded, &wait);
      } else {
        load_block(b_dram_ + ((tile.n0 + n) * plan_.k + tile.k0) * size_, plan_.k * size_,
                   base + b_ + n * b_stride_, b_stride_, width, tile.k * size_, kWeightsLoaded,
                   &wait);
      }
      if (n > 0) continue;
      for (int64_t m = 0; m < tile.m; m += plan_.fold_m) {
        load_block(a_dram_ + ((tile.m0 + m) * plan_.k + tile.k0) * size_, plan_.k * size_,
                   base + a_ + m * a_stride_, a_stride_, std::min(plan_.fold_m, tile.m - m),
                   tile.k * size_, kRowsLoaded, &wait);
      }
    }
  }

  int64_t sums(const Tile& tile, int64_t m, int64_t n) const {
    return tile.output % slots_ * sums_ + m * sums_stride_ + n;
  }

  // Of the instruction that first reads a block of rows.
  void wait_for_rows(const Tile& tile, int64_t m, int64_t n, Instruction* one) const {
    if (n == 0) put(&one->wait, kRowsLoaded);
    if (m == 0 && n == 0 && reuses_sums(tile)) put(&one->wait, kSums);
  }
  static bool reuses_sums(const Tile& tile) { return tile.first_k && tile.output >= 2; }
  void signal_block(const Tile& tile, int64_t m, int64_t n, Instruction* one) const {
    if (tile.last_k) put(&one->signal, kSumsReady);
    if (m + plan_.fold_m >= tile.m && n + config_.mx.columns >= tile.n && last_slot_user_) {
      put(&one->signal, kOperands);
    }
  }

  void compute(const std::vector<Tile>& tiles, size_t t) {
    const Tile& tile = tiles[t];
    const int64_t base = t % operand_slots_ * operands_, rows = config_.mx.rows;
    last_slot_user_ = t + 2 < tiles.size();
    for (int64_t n = 0; n < tile.n; n += config_.mx.columns) {
      const int64_t width = std::min(config_.mx.columns, tile.n - n);
      for (int64_t m = 0; m < tile.m; m += plan_.fold_m) {
        for (int64_t k = 0; k < tile.k; k += rows) {
          const int64_t depth = padded(std::min(rows, tile.k - k), config_.align.k);
          MxLdw ldw;
          ldw.w = base + b_ + n * b_stride_ + k * size_;
          ldw.wstr = b_stride_;
          ldw.k = depth;
          ldw.n = padded(width, config_.align.n);
          ldw.trans = true;
          Instruction& weights = add(ldw);
          if (m == 0 && k == 0) put(&weights.wait, kWeightsLoaded);
          MxMm mm;
          mm.a = base + a_ + m * a_stride_ + k * size_;
          mm.astr1 = a_stride_;
          mm.m = std::min(plan_.fold_m, tile.m - m);
          mm.k = depth;
          mm.n = ldw.n;
          mm.acc = sums(tile, m, n);
          mm.accstr = sums_stride_;
          mm.accumulate = !tile.first_k || k > 0;
          mm.swap = true;
          Instruction& fold = add(mm);
          if (k == 0) wait_for_rows(tile, m, n, &fold);
          if (k + rows >= tile.k) signal_block(tile, m, n, &fold);
        }
      }
    }
  }

  void compute_os(const std::vector<Tile>& tiles, size_t t) {
    const Tile& tile = tiles[t];
    const int64_t base = t % operand_slots_ * operands_;
    last_slot_user_ = t + 2 < tiles.size();
    for (int64_t n = 0; n < tile.n; n += config_.mx.columns) {
      for (int64_t m = 0; m < tile.m; m += plan_.fold_m) {
        MxMmos mm;
        mm.a = base + a_ + m * a_stride_;
        mm.astr = a_stride_;
        mm.b = base + b_ + n * size_;
        mm.bstr = b_stride_;
        mm.m = std::min(plan_.fold_m, tile.m - m);
        mm.n = padded(std::min(config_.mx.columns, tile.n - n), config_.align.n);
        mm.k = padded(tile.k, config_.align.k);
        mm.acc = sums(tile, m, n);
        mm.accstr = sums_stride_;
        mm.accumulate = !tile.first_k;
        Instruction& fold = add(mm);
        if (m == 0) put(&fold.wait, kWeightsLoaded);
        if (n == 0) put(&fold.wait, kRowsLoaded);
        signal_block(tile, m, n, &fold);
      }
    }
  }

  static int64_t padded(int64_t value, int64_t align) { return up(value, align); }

  void store(const Tile& tile) {
    const int64_t base = c_ + tile.output % slots_ * results_;
    const int64_t last_output = count(plan_.m, plan_.tile_m) * count(plan_.n, plan_.tile_n) - 1;
    const bool reused = tile.output + 2 <= last_output;
    bool first = true;
    for (int64_t n = 0; n < tile.n; n += config_.mx.columns) {
      const int64_t width = std::min(config_.mx.columns, tile.n - n);
      for (int64_t m = 0; m < tile.m; m += plan_.fold_m) {
        const int64_t height = std::min(plan_.fold_m, tile.m - m);
        for (int64_t row = 0; row < height; row += kMostRows) {
          const int64_t rows = std::min(kMostRows, height - row);
          const bool last = n + config_.mx.columns >= tile.n && m + plan_.fold_m >= tile.m &&
                            row + kMostRows >= height;
          VeReq req;
          req.acc = sums(tile, m + row, n);
          req.accstr = sums_stride_;
          req.rows = rows;
          req.n = padded(width, config_.align.n);
          req.dst = base + (m + row) * c_stride_ + n * size_;
          req.dstr = c_stride_;
          req.scale = req.bias = scales_;
          req.lo = -128;
          req.hi = 127;
          Instruction& requantise = add(req);
          if (row == 0) put(&requantise.wait, kSumsReady);
          if (first && tile.output >= 2) put(&requantise.wait, kResults);
          put(&requantise.signal, kResultReady);
          if (last && reused) put(&requantise.signal, kSums);
          St st;
          st.dram = c_dram_ + ((tile.m0 + m + row) * plan_.n + tile.n0 + n) * size_;
          st.dstr1 = plan_.n * size_;
          st.loc = req.dst;
          st.lstr1 = c_stride_;
          st.n0 = width * size_;
          st.n1 = rows;
          Instruction& write = add(st);
          put(&write.wait, kResultReady);
          if (last && reused) put(&write.signal, kResults);
          first = false;
        }
      }
    }
  }

 public:
  // What of the plan no field could hold or no memory.
  absl::Status fits() const {
    const bool os = plan_.output_stationary;
    const struct {
      const char* what;
      int64_t value, most;
    } limits[] = {{"bytes of SPM", scales_ + 4 * config_.mx.columns, config_.spm.bytes},
                  {"words of ACC", slots_ * sums_, config_.acc.bytes / 4},
                  {"bytes of a run", plan_.tile_k * size_, kMostBytes},
                  {"words of a row of sums", sums_stride_, 4095},
                  {"rows of a fold", plan_.fold_m, os ? config_.mx.rows : 65535}};
    for (const auto& limit : limits) {
      if (limit.value <= limit.most) continue;
      return absl::InvalidArgumentError(
          concat("the plan takes ", limit.value, " ", limit.what, " of ", limit.most));
    }
    return absl::OkStatus();
  }

 private:
  const Config& config_;
  const GemmPlan& plan_;
  const int64_t size_;
  int64_t a_, b_, c_, scales_;                                   // in SPM: within a slot, and of C
  int64_t a_stride_, b_stride_, c_stride_, sums_stride_;
  int64_t operands_, results_, sums_;                            // of a slot
  int64_t operand_slots_, slots_;
  int64_t a_dram_, b_dram_, c_dram_;
  bool last_slot_user_ = false;
  Program program_;
};

}  // namespace

absl::StatusOr<Program> make_gemm(const Config& config, const GemmPlan& plan) {
  const std::pair<int64_t, const char*> least_one[] = {
      {plan.m, "m"}, {plan.n, "n"}, {plan.k, "k"}, {plan.tile_m, "tile_m"},
      {plan.tile_n, "tile_n"}, {plan.tile_k, "tile_k"}, {plan.fold_m, "fold_m"}};
  for (const auto& [value, name] : least_one) {
    if (value < 1) return absl::InvalidArgumentError(concat(name, " = ", value, ": at least 1"));
  }
  Generator generator(config, plan);
  RETURN_IF_ERROR(generator.fits());
  Program program = generator.make();
  RETURN_IF_ERROR(check_program(config, program));
  return program;
}

GemmTraffic gemm_traffic(const GemmPlan& plan) {
  const int64_t size = size_of(plan.dtype);
  const int64_t m_tiles = (plan.m + plan.tile_m - 1) / plan.tile_m;
  const int64_t n_tiles = (plan.n + plan.tile_n - 1) / plan.tile_n;
  return {(n_tiles * plan.m + m_tiles * plan.n) * plan.k * size, plan.m * plan.n * size};
}

}  // namespace lw::npu
