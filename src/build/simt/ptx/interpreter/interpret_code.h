// A decoded PTX program. Registers, constants and special registers are one file of slots, each of
// 32 lanes: an operand is a slot's number, whatever it was in the text. Predicates have slots too,
// with one bit a lane. Immutable once parsed.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "src/build/simt/ptx/interpreter/interpret.h"

namespace lw::ptx_interpreter {

enum class PtxType : uint8_t {
  kPred,
  kB8,
  kB16,
  kB32,
  kB64,
  kB128,
  kU8,
  kU16,
  kU32,
  kU64,
  kS8,
  kS16,
  kS32,
  kS64,
  kF16,
  kBf16,
  kF32,
  kF64,
  kF16x2,
  kBf16x2,
  kTf32,
  kE4m3,
  kE5m2,
  kNone
};
int bytes_of(PtxType type);
bool is_float(PtxType type);  // f16, bf16, f32, f64
bool is_signed(PtxType type);
bool is_bits(PtxType type);     // b8 ... b128
bool is_integer(PtxType type);  // u8 ... s64
// kNone: no name of a type. Without the dot.
PtxType type_named(std::string_view name);
std::string_view name_of(PtxType type);

enum class Space : uint8_t { kGeneric, kGlobal, kShared, kCluster, kLocal, kParam };

struct Warp;
struct Instruction;
// Executes for the lanes of `mask`, which is not empty. Reports errors to the warp.
using Handler = void (*)(Warp& warp, const Instruction& in, uint32_t mask);

// What an instruction does to the flow of a warp.
enum class Flow : uint8_t {
  kNext,
  kBranch,  // to `target`
  kExit,
  kTrap,
  kMembers,  // waits for the lanes that slot op[flow_op] names
  kWhole,    // all lanes of a warp of 32, none of which has ended
  kBarrier,  // bar, barrier
  kPoll,     // may be repeated later: the handler says (mbarriers)
};

struct Instruction {
  Handler run = nullptr;
  Flow flow = Flow::kNext;
  bool guard_negated = false, aligned = false;
  int32_t guard = -1;  // slot of a predicate
  int32_t target = 0;
  int32_t member_slot = -1;  // kMembers
  int32_t op[6] = {-1, -1, -1, -1, -1, -1};
  int64_t number[4] = {0, 0, 0, 0};  // meaning: its handler's
  uint32_t flags = 0;                // likewise
  Space space = Space::kGeneric;
  std::vector<int32_t> list;           // operands of vectors and fragments, likewise
  std::vector<int32_t> reads, writes;  // slots that must have been written, that are written
  int line = 0;
  std::string text;
};

enum class Special : uint8_t {
  kTid,
  kNtid,
  kCtaid,
  kNctaid,
  kLane,
  kWarp,
  kWarps,
  kMaskEq,
  kMaskLt,
  kMaskLe,
  kMaskGt,
  kMaskGe,
  kClusterId,
  kClusters,
  kClusterCta,
  kClusterCtas,
  kClusterRank,
  kClusterSize,
  kDynamicShared,
  kZero
};

struct Slot {
  enum class Kind : uint8_t { kRegister, kConstant, kSpecial } kind = Kind::kRegister;
  PtxType type = PtxType::kB32;
  Special special = Special::kZero;
  int dimension = 0;
  uint64_t bits = 0;  // kConstant
  std::string name;
};

// None: no special register has this name, or the target or version has it not.
struct Program;
std::optional<Slot> special_slot(std::string_view name, const Program& program);

struct Function {
  PtxEntry entry;
  std::vector<Slot> slots;
  absl::flat_hash_map<uint64_t, int32_t> constants;  // their slots
  std::vector<Instruction> code;                     // ends with an exit
};

struct Program {
  std::string target;
  int version = 0;  // 75: 7.5
  std::vector<PtxEntry> entries;
  std::vector<Function> functions;  // of the same order

  // 90 of "sm_90" and of what is later.
  bool target_at_least(int number) const { return std::atoi(target.c_str() + 3) >= number; }
};

// Addresses of shared and local memory begin here, so that none is 0.
inline constexpr int64_t kSharedBase = 1024, kLocalBase = 1024;

}  // namespace lw::ptx_interpreter
