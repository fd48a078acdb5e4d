// From a statement of PTX text to a decoded instruction: a cursor over its modifiers, and operands
// by type. Functions named decode_* take one class of instructions each; all of them are
// interpret_decode.cc's table.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/build/simt/ptx/interpreter/interpret_code.h"

namespace lw::ptx_interpreter {

struct Operand {
  enum class Kind : uint8_t {
    kName,
    kInteger,
    kFloat,
    kSink,
    kVector,
    kAddress
  } kind = Kind::kName;
  std::string name;            // kName, and an address' base ("": none)
  std::string second;          // of `name|second`
  bool negated = false;        // !name
  bool wide = false;           // kFloat: 0d or decimal; bits are a double's
  uint64_t bits = 0;           // kInteger, kFloat
  int64_t offset = 0;          // of an address or a name
  std::vector<Operand> items;  // of a vector; of an address: what follows its base

  // `name` and what stands behind it; "": nothing does.
  std::pair<Operand, Operand> halves() const {
    Operand one = *this, other = *this;
    one.second.clear();
    other.name = std::exchange(other.second, "");
    other.kind = other.name == "_" ? Kind::kSink : Kind::kName;
    return {std::move(one), std::move(other)};
  }
};

struct Statement {
  std::string root;                    // "add"
  std::vector<std::string> modifiers;  // "rn", "f32"
  std::vector<Operand> operands;
  int line = 0;
  std::string text;
};

// A name that stands for an address.
struct Symbol {
  Space space = Space::kShared;
  int64_t address = 0;  // kParam: into the block of parameters
};

struct Names {
  virtual ~Names() = default;
  virtual const int32_t* find_register(std::string_view name) const = 0;
  virtual const Symbol* find_symbol(std::string_view name) const = 0;
};

// Errors are kept: the first one counts, and what is asked after it has no meaning.
class Decoder {
 public:
  Decoder(const Program& program, Function* function, const Names& names,
          const Statement& statement);

  // Modifiers, from left to right.
  bool take(std::string_view modifier);
  std::string_view take_any(std::initializer_list<std::string_view> modifiers);  // "" if none
  std::string_view peek() const;                                                 // "" at the end
  std::string_view last() const;                                                 // of all modifiers
  std::string_view second() const;  // the one after peek()
  // One of the types, else an error.
  PtxType take_type(std::initializer_list<PtxType> allowed);
  PtxType take_type_if(std::initializer_list<PtxType> allowed);  // kNone, and nothing taken
  std::string_view must_take(std::initializer_list<std::string_view> modifiers);
  void expect_no_more();  // modifiers
  void skip() { ++at_; }

  // Operands.
  int operands() const { return static_cast<int>(statement_.operands.size()); }
  const Operand& operand(int i);
  void expect_operands(int least, int most = -1);
  bool is_vector(int i) { return operand(i).kind == Operand::Kind::kVector; }
  int32_t source(int i, PtxType type) { return source(operand(i), type); }
  int32_t source(const Operand& operand, PtxType type);
  int32_t source_or_symbol(int i, PtxType type);  // the address of a variable, as well
  int32_t destination(int i, PtxType type) { return destination(operand(i), type); }
  int32_t destination(const Operand& operand, PtxType type);
  // Registers wider than the type, as loads, stores and conversions take them.
  int32_t wide_source(const Operand& operand, PtxType type);
  int32_t wide_destination(const Operand& operand, PtxType type);
  // A predicate; `negated` may be null where ! is not allowed.
  int32_t predicate(int i, bool* negated);
  // The registers of a vector of `count`.
  void sources(int i, PtxType type, int count);  // appended to in.list
  void destinations(int i, PtxType type, int count);
  int64_t integer(int i, int64_t least, int64_t most);  // a constant
  // [base + offset] into in.op[slot], in.number[0] += offset. Sets in.space where it is generic but
  // the base says which.
  void address(int i, int op_slot, Space space);
  void address_of(const Operand& operand, int op_slot, int number_slot, Space space);

  int32_t constant(uint64_t bits);
  PtxType type_of(int32_t slot) const { return function_->slots[slot].type; }
  void reads(int32_t slot);
  void writes(int32_t slot);
  // Whether the target is at least sm_<number>.
  bool target_at_least(int number) const;
  bool version_at_least(int number) const { return program_.version >= number; }
  void fail(std::string_view what);
  void unknown();  // the form is none we know
  bool ok() const { return status_.ok(); }
  const absl::Status& status() const { return status_; }
  const std::string& root() const { return statement_.root; }

  Instruction in;

 private:
  const int32_t* named(const Operand& operand);
  const Program& program_;
  Function* function_;
  const Names& names_;
  const Statement& statement_;
  size_t at_ = 0;
  absl::Status status_;
  Operand nothing_;  // stands for what is missing
};

absl::StatusOr<Instruction> decode_statement(const Program& program, Function* function,
                                             const Names& names, const Statement& statement);
absl::Status statement_error(int line, std::string_view text, std::string_view what);

// .cta ... .sys; .shared or .shared::cta, where the target and the version have it.
bool take_scope(Decoder& d);
bool take_shared(Decoder& d);

void decode_move(Decoder& d);
void decode_integer(Decoder& d);
void decode_bits(Decoder& d);
void decode_float(Decoder& d);
void decode_special_function(Decoder& d);
void decode_compare(Decoder& d);
void decode_convert(Decoder& d);
void decode_load(Decoder& d);
void decode_store(Decoder& d);
void decode_atomic(Decoder& d);
void decode_address(Decoder& d);  // cvta, mapa, prefetch, createpolicy
void decode_flow(Decoder& d);
void decode_barrier(Decoder& d);
void decode_warp(Decoder& d);
void decode_copy(Decoder& d);  // cp.*
void decode_bulk(Decoder& d);  // cp.async.bulk, cp.reduce.async.bulk, st.async
void decode_mbarrier(Decoder& d);
void decode_cluster(Decoder& d);  // barrier.cluster, mapa, elect, setmaxnreg
void decode_wgmma(Decoder& d);
void decode_matrix(Decoder& d);  // mma, ldmatrix, stmatrix, movmatrix

}  // namespace lw::ptx_interpreter
