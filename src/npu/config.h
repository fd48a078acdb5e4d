// A simulated NPU as data: one architecture, whose sizes, rates and memory a configuration gives. A
// systolic array (MX) of R x C multipliers, a vector engine (VE), two DMA engines (LD, ST) over one
// DRAM, a software-managed memory of bytes (SPM) and one of 32-bit sums (ACC).
//
// Times are in cycles of the core's clock, except those of `dram`, which are in cycles of its own.
// Values; functions are pure and thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "absl/status/statusor.h"

namespace lw::npu {

// What a field may be, and what it means: one row for each, of which reading, printing, refusing
// and `npu_sim configs` are made.
struct FieldRule {
  const char* name;
  double least, most;                      // of numbers
  const char* meaning;
};

// pipelined: weights are shifted in beside the rows of the fold before (ONNXim, Gemmini, TPU).
// serial: folds never overlap (SCALE-Sim v2). direct: no wavefront: a row a cycle, weights at once,
// in turns with VE (VTA's core).
enum class ArrayMode { kPipelined, kSerial, kDirect };
enum class Dtype : uint8_t { kI8, kBf16, kI32, kF32 };
constexpr int64_t size_of(Dtype dtype) {   // bytes
  return dtype == Dtype::kI8 ? 1 : dtype == Dtype::kBf16 ? 2 : 4;
}
// ideal: takes no time. flat: a bandwidth and a latency. paged: banks, rows, buses (timing/dram.h).
enum class DramKind { kIdeal, kFlat, kPaged };
// none: the lowest bits of the unit's number. xor: all of its bits, folded, so that no stride of a
// power of two meets one channel alone.
enum class ChannelHash { kNone, kXor };
enum class Requant { kF32Rne, kTflite };

std::string_view name_of(ArrayMode mode);
std::string_view name_of(Dtype dtype);
std::string_view name_of(DramKind kind);
std::string_view name_of(ChannelHash hash);
std::string_view name_of(Requant requant);
bool parse_name(std::string_view name, ArrayMode* mode);
bool parse_name(std::string_view name, Dtype* dtype);
bool parse_name(std::string_view name, DramKind* kind);
bool parse_name(std::string_view name, ChannelHash* hash);
bool parse_name(std::string_view name, Requant* requant);

struct ArrayConfig {
  int64_t rows = 16, columns = 16;
  ArrayMode mode = ArrayMode::kPipelined;
  int64_t m_min = 4, latency = 4;
  bool output_stationary = true;
  std::vector<Dtype> dtypes = {Dtype::kI8};
  double bf16_rate = 1;
  int64_t col_bpc = 32;

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit({"R", 1, 255, "rows of the array: reduction channels of a fold"}, self.rows);
    visit({"C", 1, 255, "columns of the array: output channels of a fold"}, self.columns);
    visit({"mode", 0, 0, "pipelined, serial or direct folds"}, self.mode);
    visit({"m_min", 1, 255, "least cycles from one MM to the next"}, self.m_min);
    visit({"mx_lat", 0, 1000, "cycles from the last sum to ACC"}, self.latency);
    visit({"os", 0, 1, "MX.MMOS is there"}, self.output_stationary);
    visit({"dtypes", 0, 0, "of operands: i8, bf16"}, self.dtypes);
    visit({"bf16_rate", 1.0 / 64, 1, "rows a cycle of bf16, to those of i8"}, self.bf16_rate);
    visit({"col_bpc", 1, 4096, "bytes a cycle of MX.COL"}, self.col_bpc);
  }
};

struct SpmConfig {
  int64_t bytes = 1 << 18, align = 16;

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit({"bytes", 1024, 1 << 24, "capacity (addresses have 24 bits)"}, self.bytes);
    visit({"align", 1, 4096, "of addresses and row strides, bytes; a power of two"}, self.align);
  }
};

struct AccConfig {
  int64_t bytes = 1 << 16, align = 16;

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit({"bytes", 256, 1 << 22, "capacity (20 bits address 4-byte words)"}, self.bytes);
    visit({"align", 1, 255, "of addresses and row strides, words"}, self.align);
  }
};

struct AlignConfig {
  int64_t k = 16, n = 16;

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit({"k", 1, 255, "reduction tiles are padded to multiples of it"}, self.k);
    visit({"n", 1, 255, "output tiles are padded to multiples of it"}, self.n);
  }
};

struct RateConfig {
  double add = 1, mul = 1, max = 1, req = 1, exp = 4, rsqrt = 8;

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit({"add", 0, 1000, "ADD SUB MIN MAX CMP SHR COPY RELU ABS"}, self.add);
    visit({"mul", 0, 1000, "MUL, and each product of VE.DW"}, self.mul);
    visit({"max", 0, 1000, "MAX MIN CMP"}, self.max);
    visit({"req", 0, 1000, "VE.REQ"}, self.req);
    visit({"exp", 0, 1000, "tables: EXP TANH SIGM GELU"}, self.exp);
    visit({"rsqrt", 0, 1000, "RECIP RSQRT"}, self.rsqrt);
  }
};

struct VectorConfig {
  int64_t lanes = 16, startup = 8;
  RateConfig cpi;

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit({"lanes", 1, 1024, "32-bit lanes"}, self.lanes);
    visit({"startup", 0, 10000, "cycles of each instruction before its first row"}, self.startup);
    visit({"cpi", 0, 0, "cycles of a vector of lanes, by function"}, self.cpi);
  }
};

struct QueueConfig {
  int64_t depth = 8, dispatch = 4, semaphores = 64, loads_in_flight = 2, stores_in_flight = 2;

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit({"depth", 1, 1024, "instructions that wait for an engine"}, self.depth);
    visit({"dispatch_cyc", 0, 1000, "cycles of an instruction's dispatch"}, self.dispatch);
    visit({"sems", 1, 64, "counting semaphores (ids have 6 bits)"}, self.semaphores);
    visit({"ld_inflight", 1, 1024, "LD descriptors at work at once"}, self.loads_in_flight);
    visit({"st_inflight", 1, 1024, "ST descriptors at work at once"}, self.stores_in_flight);
  }
};

struct DmaConfig {
  int64_t setup = 24, latency = 40, window = 32, interleave = 512;
  double port_bytes = 32;

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit({"setup", 0, 10000, "cycles of a descriptor before its first request"}, self.setup);
    visit({"noc_lat", 0, 10000, "cycles from DRAM to SPM and back"}, self.latency);
    visit({"window", 1, 4096, "requests of an engine that may be unanswered"}, self.window);
    visit({"interleave", 16, 1 << 20, "bytes until the next channel; a power of two"},
          self.interleave);
    visit({"port_bytes", 0.25, 4096, "bytes a cycle to or from a channel"}, self.port_bytes);
  }
};

// Named as in datasheets; in cycles of `clock_mhz`.
struct DramConfig {
  DramKind kind = DramKind::kPaged;
  double clock_mhz = 1000, bytes_per_cycle = 12.8;
  ChannelHash hash = ChannelHash::kNone;
  int64_t channels = 1, pseudo = 1, groups = 1, banks = 32, page = 512, beat = 32;
  double ccd = 2.5, ccd_long = 2.5, command = 0, rcd = 9, rp = 9, ras = 21, rtp = 4, faw = 19;
  double cl = 9, rfc = 193, refi = 4680;

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit({"kind", 0, 0, "ideal, flat or paged"}, self.kind);
    visit({"clock_mhz", 1, 20000, "the clock of the times below"}, self.clock_mhz);
    visit({"bytes_per_cycle", 0.01, 65536, "a core cycle, of kind flat"}, self.bytes_per_cycle);
    visit({"channels", 1, 64, "a power of two"}, self.channels);
    visit({"hash", 0, 0, "of the channel: none or xor"}, self.hash);
    visit({"pseudo", 1, 2, "pseudo channels of a channel: own banks and data, one command bus"},
          self.pseudo);
    visit({"groups", 1, 16, "bank groups of a pseudo channel; a power of two"}, self.groups);
    visit({"banks", 1, 256, "of a pseudo channel; a power of two"}, self.banks);
    visit({"page", 64, 1 << 16, "bytes of a row of a bank; a power of two"}, self.page);
    visit({"beat_bytes", 4, 1024, "of one access; a power of two"}, self.beat);
    visit({"tCCD", 0.0625, 1000, "access to access, other bank group"}, self.ccd);
    visit({"tCCD_L", 0.0625, 1000, "access to access, same bank group"}, self.ccd_long);
    visit({"tCMD", 0, 1000, "of the command bus, a command; 0: never short"}, self.command);
    visit({"tRCD", 0, 1000, "activate to access"}, self.rcd);
    visit({"tRP", 0, 1000, "precharge to activate"}, self.rp);
    visit({"tRAS", 0, 1000, "activate to precharge"}, self.ras);
    visit({"tRTP", 0, 1000, "access to precharge"}, self.rtp);
    visit({"tFAW", 0, 1000, "window of four activates"}, self.faw);
    visit({"tCL", 0, 1000, "access to data"}, self.cl);
    visit({"tRFC", 0, 100000, "a refresh"}, self.rfc);
    visit({"tREFI", 1, 1e7, "refresh to refresh"}, self.refi);
  }
};

struct Config {
  std::string name;
  double clock_mhz = 1000;
  ArrayConfig mx;
  SpmConfig spm;
  AccConfig acc;
  AlignConfig align;
  VectorConfig ve;
  QueueConfig queues;
  DmaConfig dma;
  DramConfig dram;
  Requant requant = Requant::kF32Rne;

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit({"name", 0, 0, "what it is called"}, self.name);
    visit({"clock_mhz", 1, 20000, "the core's clock"}, self.clock_mhz);
    visit({"mx", 0, 0, "the systolic array"}, self.mx);
    visit({"spm", 0, 0, "the memory of operands"}, self.spm);
    visit({"acc", 0, 0, "the memory of sums"}, self.acc);
    visit({"align", 0, 0, "of tiles"}, self.align);
    visit({"ve", 0, 0, "the vector engine"}, self.ve);
    visit({"queues", 0, 0, "of instructions"}, self.queues);
    visit({"dma", 0, 0, "LD and ST"}, self.dma);
    visit({"dram", 0, 0, "the memory outside"}, self.dram);
    visit({"requant", 0, 0, "of VE.REQ: f32_rne or tflite"}, self.requant);
  }
};

template <class T>
concept ConfigGroup = requires(T& value) { T::fields(value, [](FieldRule, auto&) {}); };

// visit(path, rule, value) for each value of a configuration: {"dram.page", its rule, 512}.
template <ConfigGroup T, class Visit>
void visit_values(T& group, const Visit& visit, const std::string& prefix = "") {
  T::fields(group, [&](FieldRule rule, auto& value) {
    const std::string path = prefix + rule.name;
    if constexpr (ConfigGroup<std::remove_reference_t<decltype(value)>>) {
      visit_values(value, visit, path + ".");
    } else {
      visit(path, rule, value);
    }
  });
}

// From JSON with every field given. kInvalidArgument names the field ("mid32: dram.page: ..."),
// what it says and what is allowed; a field that nobody knows is refused, with the nearest name.
absl::StatusOr<Config> parse_config(std::string_view json, std::string_view source);
// That JSON again: parse_config of it is an equal configuration.
std::string print_config(const Config& config);
// What is out of its range or contradicts itself, as above. OK: every program can be simulated on it.
absl::Status check_config(const Config& config);

// One that is shipped, by name, or a file's, by path: whatever has a '/' or ends in ".json".
// kInvalidArgument: there is none of that name, with the nearest one; kNotFound: no such file.
absl::StatusOr<Config> find_config(const std::string& name_or_path);
// Of the shipped ones, sorted: machines (src/npu/configs), and profiles, which stand for what others
// simulate or build and are there to be compared with it (src/npu/configs/profiles).
std::vector<std::string> config_names();
std::vector<std::string> profile_names();

// What `npu_sim configs --fields` prints: a line for each field: path, range, meaning.
std::string describe_fields();

// Bytes a core cycle that DRAM and its ports can move at most; infinity where it takes no time.
double peak_bytes_per_cycle(const Config& config);

}  // namespace lw::npu
