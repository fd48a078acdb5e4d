// Programs that compute something, with what they read and write: products of gemm.h with scales
// and biases for each column, and convolutions by windows, as a compiler would place them. Loops of
// the simplest kind say what they should have computed.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "src/base/rng.h"
#include "src/npu/function/function.h"
#include "src/npu/isa/text.h"
#include "src/npu/programs/gemm.h"
#include "tests/support/program.h"

namespace lw::npu {

inline int64_t up(int64_t value, int64_t of) { return (value + of - 1) / of * of; }

struct Epilogue {                          // of VE.REQ
  std::vector<float> scale;
  std::vector<int32_t> bias;
  int8_t zero_point = 0, lo = -128, hi = 127;
};

// A tensor of DRAM.
struct Placed {
  uint64_t address = 0;
  std::vector<uint8_t> bytes;
  bool writable = false;
};

struct Case {
  Config config;
  Program program;
  std::vector<Placed> tensors;             // a, b, result, then others, of products
  size_t output = 2;                       // which is the result

  std::vector<uint8_t>& result() { return tensors[output].bytes; }
};

// The same machine, as far as a program can tell, with other times.
inline Config other_times(const Config& config, Rng* rng) {
  Config c = config;
  const auto pick = [rng](int64_t most) {
    return rng->below(4) == 0 ? most : rng->below(most / 8 + 1);
  };
  c.queues.depth = 1 + pick(64);
  c.queues.dispatch = rng->below(2) == 0 ? 0 : 1 + pick(100);
  c.queues.loads_in_flight = 1 + rng->below(4);
  c.queues.stores_in_flight = 1 + rng->below(4);
  c.dma.setup = pick(2000);
  c.dma.latency = pick(3000);
  c.dma.port_bytes = std::ldexp(1.0, int(rng->below(12)) - 2);
  c.ve.startup = pick(3000);
  c.ve.cpi.req = static_cast<double>(pick(200));
  c.mx.latency = pick(900);
  c.mx.m_min = 1 + pick(250);
  c.dram.kind = rng->below(3) == 0 ? DramKind::kIdeal : rng->below(2) == 0 ? DramKind::kFlat
                                                                           : DramKind::kPaged;
  c.dram.bytes_per_cycle = std::ldexp(1.0, int(rng->below(10)) - 2);
  return c;
}

inline absl::StatusOr<FunctionReport> run(Case* c, const FunctionOptions& options = {},
                                          const Config* timed_as = nullptr) {
  std::vector<Buffer> buffers;
  for (Placed& tensor : c->tensors) {
    buffers.push_back({tensor.address, tensor.bytes, tensor.writable});
  }
  const Config& config = timed_as == nullptr ? c->config : *timed_as;
  absl::StatusOr<Memory> memory = make_memory(config, std::move(buffers));
  if (!memory.ok()) return memory.status();
  return execute(config, c->program, &*memory, options);
}

inline Config machine(const std::string& name) {
  absl::StatusOr<Config> config = find_config(name);
  EXPECT_TRUE(config.ok()) << config.status();
  return *std::move(config);
}

// Mostly anything; now and then only the ends, which is where sums are largest.
inline std::vector<uint8_t> random_bytes(int64_t count, Rng* rng) {
  std::vector<uint8_t> bytes(count);
  const bool extreme = rng->below(8) == 0;
  for (uint8_t& byte : bytes) {
    byte = extreme ? (rng->below(8) == 0 ? 127 : 128) : static_cast<uint8_t>(rng->next());
  }
  return bytes;
}

// Scales that spread sums of `k` products over i8, some of them far beyond it.
inline Epilogue random_epilogue(int64_t n, int64_t k, Rng* rng) {
  Epilogue epilogue;
  for (int64_t i = 0; i < n; ++i) {
    const double wide = rng->below(4) == 0 ? 64 : 1;
    const double sign = rng->below(16) == 0 ? -1 : 1;
    epilogue.scale.push_back(
        static_cast<float>(sign * wide * (0.2 + rng->uniform()) / (60 * std::sqrt(double(k)))));
    epilogue.bias.push_back(static_cast<int32_t>(rng->below(20001) - 10000));
  }
  epilogue.zero_point = static_cast<int8_t>(rng->below(21) - 10);
  if (rng->below(3) == 0) epilogue.lo = epilogue.zero_point;         // fused RELU
  if (rng->below(4) == 0) epilogue.hi = 100;
  return epilogue;
}

// Independent of numbers.h: products of floats are exact in double; half to even by hand.
inline int8_t requantised(int32_t sum, float scale, int32_t bias, const Epilogue& e) {
  const int32_t biased =
      static_cast<int32_t>(static_cast<uint32_t>(sum) + static_cast<uint32_t>(bias));
  const float rounded = static_cast<float>(biased);
  const float product = static_cast<float>(double(rounded) * double(scale));
  double whole = std::floor(double(product));
  const double rest = double(product) - whole;
  if (rest > 0.5 || (rest == 0.5 && std::fmod(whole, 2) != 0)) whole += 1;
  const double value = std::clamp(whole + e.zero_point, -128.0, 127.0);
  return static_cast<int8_t>(std::clamp(value, double(e.lo), double(e.hi)));
}

inline int32_t value_at(const std::vector<uint8_t>& bytes, int64_t at) {
  return static_cast<int8_t>(bytes[at]);
}

inline int64_t spm_end(const Program& program) {
  int64_t end = 0;
  for (const Instruction& one : program) {
    for (const Access& access : accesses_of(one)) {
      if (access.place == Place::kSpm) end = std::max(end, access.end());
    }
  }
  return end;
}

inline Placed words(uint64_t address, const void* values, int64_t count) {
  Placed placed = {address, std::vector<uint8_t>(4 * count), false};
  std::memcpy(placed.bytes.data(), values, 4 * count);
  return placed;
}

inline void append(const std::vector<float>& values, std::vector<uint32_t>* words) {
  for (const float value : values) words->push_back(std::bit_cast<uint32_t>(value));
}

constexpr uint8_t kScalesLoaded = 63;

// Loads scales and biases (`n` of each, to SPM behind all else) before the program, and lets each
// VE.REQ find its columns: `column(request)` of the i-th instruction. kInvalidArgument: no room.
template <class Column>
absl::Status add_epilogue(Case* c, const Epilogue& e, uint64_t address, Column&& column) {
  const int64_t n = static_cast<int64_t>(e.scale.size());
  const int64_t room = up(n, 64) + 256, scales = up(spm_end(c->program), 4096);
  const int64_t biases = scales + 4 * room;
  if (biases + 4 * room > c->config.spm.bytes) return absl::InvalidArgumentError("no room");
  std::vector<uint32_t> all(2 * room, 0);
  std::memcpy(all.data(), e.scale.data(), 4 * n);
  std::memcpy(all.data() + room, e.bias.data(), 4 * n);
  c->tensors.push_back(words(address, all.data(), 2 * room));
  bool first = true;
  for (size_t i = 0; i < c->program.size(); ++i) {
    VeReq* const req = std::get_if<VeReq>(&c->program[i].body);
    if (req == nullptr) continue;
    const int64_t at = column(i);
    req->scale = static_cast<uint32_t>(scales + 4 * at);
    req->bias = static_cast<uint32_t>(biases + 4 * at);
    req->zp = e.zero_point;
    req->lo = e.lo;
    req->hi = e.hi;
    if (first) c->program[i].wait[c->program[i].wait[0] == kNoToken ? 0 : 1] = kScalesLoaded;
    first = false;
  }
  Ld ld;
  ld.dram = address;
  ld.loc = static_cast<uint32_t>(scales);
  ld.n0 = static_cast<uint16_t>(8 * room);
  Instruction load = {ld};
  load.signal[0] = kScalesLoaded;
  c->program.insert(c->program.begin(), load);
  return absl::OkStatus();
}

// C = requantised A . B of i8, `plan` as gemm.h has it. Its k and tiles are multiples of what a
// machine pads them to; beyond `k` numbers, A and B hold zeros, as a compiler lays them out.
inline absl::StatusOr<Case> gemm_case(const Config& config, const GemmPlan& plan, int64_t k,
                                      const Epilogue& e, Rng* rng) {
  Case c = {config, {}, {}};
  absl::StatusOr<Program> program = make_gemm(config, plan);
  if (!program.ok()) return program.status();
  c.program = *std::move(program);
  const uint64_t b = up(plan.m * plan.k, 4096), result = b + up(plan.n * plan.k, 4096);
  c.tensors = {{0, random_bytes(plan.m * plan.k, rng), false},
               {b, random_bytes(plan.n * plan.k, rng), false},
               {result, std::vector<uint8_t>(plan.m * plan.n, 0x5A), true}};
  for (int64_t i = k; i < plan.k; ++i) {
    for (int64_t m = 0; m < plan.m; ++m) c.tensors[0].bytes[m * plan.k + i] = 0;
    for (int64_t n = 0; n < plan.n; ++n) {
      c.tensors[1].bytes[plan.output_stationary ? i * plan.n + n : n * plan.k + i] = 0;
    }
  }
  const absl::Status added =
      add_epilogue(&c, e, result + up(plan.m * plan.n, 4096), [&](size_t i) {
        const St& store = std::get<St>(c.program[i + 1].body);
        return static_cast<int64_t>(store.dram - result) % plan.n;
      });
  if (!added.ok()) return added;
  return c;
}

inline std::vector<uint8_t> gemm_reference(const Case& c, const GemmPlan& plan, const Epilogue& e) {
  std::vector<uint8_t> result(plan.m * plan.n);
  for (int64_t m = 0; m < plan.m; ++m) {
    for (int64_t n = 0; n < plan.n; ++n) {
      uint32_t sum = 0;
      for (int64_t k = 0; k < plan.k; ++k) {
        const int64_t at = plan.output_stationary ? k * plan.n + n : n * plan.k + k;
        sum += static_cast<uint32_t>(value_at(c.tensors[0].bytes, m * plan.k + k) *
                                     value_at(c.tensors[1].bytes, at));
      }
      result[m * plan.n + n] = static_cast<uint8_t>(
          requantised(static_cast<int32_t>(sum), e.scale[n], e.bias[n], e));
    }
  }
  return result;
}

// A plan whose tiles fit; k is padded.
inline GemmPlan random_plan(const Config& config, int64_t k, int64_t most, Rng* rng) {
  GemmPlan plan;
  plan.m = 1 + rng->below(most);
  plan.n = 1 + rng->below(most);
  plan.k = up(k, config.align.k);
  plan.output_stationary = config.mx.output_stationary && rng->below(3) == 0;
  plan.tile_m = 1 + rng->below(plan.m);
  plan.tile_n = up(1 + rng->below(plan.n), config.align.n);
  plan.tile_k = up(1 + rng->below(plan.k), config.align.k);
  plan.fold_m = 1 + rng->below(plan.tile_m);
  if (plan.output_stationary) plan.fold_m = std::min(plan.fold_m, config.mx.rows);
  return plan;
}

}  // namespace lw::npu
