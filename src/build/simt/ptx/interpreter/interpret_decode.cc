// What decoders of all instructions share (interpret_decode.h), and which one takes which.
#include "src/build/simt/ptx/interpreter/interpret_decode.h"

#include <bit>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/build/simt/ptx/interpreter/interpret_code.h"

namespace lw::ptx_interpreter {
namespace {

struct TypeFacts {
  std::string_view name;
  int bytes;
  char sort;  // p: predicate, b, u, s, f; x: packed, no register's
};
constexpr TypeFacts kTypeFacts[] = {
    {"pred", 1, 'p'},  {"b8", 1, 'b'},   {"b16", 2, 'b'},  {"b32", 4, 'b'},   {"b64", 8, 'b'},
    {"b128", 16, 'b'}, {"u8", 1, 'u'},   {"u16", 2, 'u'},  {"u32", 4, 'u'},   {"u64", 8, 'u'},
    {"s8", 1, 's'},    {"s16", 2, 's'},  {"s32", 4, 's'},  {"s64", 8, 's'},   {"f16", 2, 'f'},
    {"bf16", 2, 'f'},  {"f32", 4, 'f'},  {"f64", 8, 'f'},  {"f16x2", 4, 'x'}, {"bf16x2", 4, 'x'},
    {"tf32", 4, 'x'},  {"e4m3", 1, 'x'}, {"e5m2", 1, 'x'}, {"none", 0, 'x'}};
const TypeFacts& facts_of(PtxType type) { return kTypeFacts[static_cast<int>(type)]; }

// Whether a register of type `own` may stand where the instruction has `type`.
bool may_stand(PtxType own, PtxType type) {
  const TypeFacts& a = facts_of(own);
  const TypeFacts& b = facts_of(type);
  if (a.sort == 'p' || b.sort == 'p') return a.sort == b.sort;
  if (a.bytes != b.bytes) return false;
  // Halves and packed values live in registers of bits.
  if (b.sort == 'x' || type == PtxType::kF16 || type == PtxType::kBf16) {
    return a.sort == 'b' || own == type;
  }
  if (a.sort == 'b' || b.sort == 'b') return true;
  return (a.sort == 'f') == (b.sort == 'f');
}

// Likewise, of an instruction that widens into its register, or takes the low part of it.
bool may_stand_wide(PtxType own, PtxType type) {
  if (may_stand(own, type)) return true;
  const TypeFacts& a = facts_of(own);
  const TypeFacts& b = facts_of(type);
  if (a.sort == 'p' || b.sort == 'p' || a.bytes < b.bytes) return false;
  if (b.sort == 'f') return a.sort == 'b' && b.bytes == a.bytes;
  return a.sort != 'f';
}

}  // namespace

int bytes_of(PtxType type) { return facts_of(type).bytes; }
bool is_float(PtxType type) { return facts_of(type).sort == 'f'; }
bool is_signed(PtxType type) { return facts_of(type).sort == 's'; }
bool is_bits(PtxType type) { return facts_of(type).sort == 'b'; }
bool is_integer(PtxType type) { return facts_of(type).sort == 'u' || facts_of(type).sort == 's'; }
std::string_view name_of(PtxType type) { return facts_of(type).name; }

PtxType type_named(std::string_view name) {
  for (int i = 0; i < static_cast<int>(PtxType::kNone); ++i) {
    if (kTypeFacts[i].name == name) return static_cast<PtxType>(i);
  }
  return PtxType::kNone;
}

absl::Status statement_error(int line, std::string_view text, std::string_view what) {
  return absl::InvalidArgumentError(concat("line ", line, ": '", text, "': ", what));
}

Decoder::Decoder(const Program& program, Function* function, const Names& names,
                 const Statement& statement)
    : program_(program), function_(function), names_(names), statement_(statement) {
  in.line = statement.line;
  in.text = statement.text;
}

void Decoder::fail(std::string_view what) {
  if (status_.ok()) status_ = statement_error(statement_.line, statement_.text, what);
}

void Decoder::unknown() { fail("this form of the instruction is not known"); }

std::string_view Decoder::peek() const {
  return at_ < statement_.modifiers.size() ? std::string_view(statement_.modifiers[at_]) : "";
}

std::string_view Decoder::last() const {
  return statement_.modifiers.empty() ? "" : std::string_view(statement_.modifiers.back());
}

std::string_view Decoder::second() const {
  const std::vector<std::string>& all = statement_.modifiers;
  return at_ + 1 < all.size() ? std::string_view(all[at_ + 1]) : "";
}

bool Decoder::take(std::string_view modifier) {
  if (at_ >= statement_.modifiers.size() || peek() != modifier) return false;
  ++at_;
  return true;
}

std::string_view Decoder::take_any(std::initializer_list<std::string_view> modifiers) {
  for (const std::string_view m : modifiers) {
    if (take(m)) return m;
  }
  return "";
}

std::string_view Decoder::must_take(std::initializer_list<std::string_view> modifiers) {
  const std::string_view taken = take_any(modifiers);
  if (taken.empty()) unknown();
  return taken;
}

PtxType Decoder::take_type_if(std::initializer_list<PtxType> allowed) {
  for (const PtxType type : allowed) {
    if (take(name_of(type))) return type;
  }
  return PtxType::kNone;
}

PtxType Decoder::take_type(std::initializer_list<PtxType> allowed) {
  const PtxType type = take_type_if(allowed);
  if (type == PtxType::kNone) {
    fail(peek().empty() ? "a type is missing" : concat("the instruction has no form .", peek()));
  }
  return type;
}

void Decoder::expect_no_more() {
  if (at_ < statement_.modifiers.size()) {
    fail(concat("modifier .", peek(), " is not known, or not here"));
  }
}

void Decoder::expect_operands(int least, int most) {
  expect_no_more();
  if (most < 0) most = least;
  if (operands() < least || operands() > most) fail("the number of operands is wrong");
}

const Operand& Decoder::operand(int i) {
  if (i < operands()) return statement_.operands[i];
  fail("an operand is missing");
  return nothing_;
}

void Decoder::reads(int32_t slot) {
  if (slot >= 0 && function_->slots[slot].kind == Slot::Kind::kRegister) in.reads.push_back(slot);
}

void Decoder::writes(int32_t slot) {
  if (slot >= 0) in.writes.push_back(slot);
}

int32_t Decoder::constant(uint64_t bits) {
  std::vector<Slot>& slots = function_->slots;
  const auto [found, added] =
      function_->constants.try_emplace(bits, static_cast<int32_t>(slots.size()));
  if (!added) return found->second;
  Slot slot;
  slot.kind = Slot::Kind::kConstant;
  slot.bits = bits;
  slots.push_back(slot);
  return found->second;
}

const int32_t* Decoder::named(const Operand& operand) {
  const int32_t* slot = names_.find_register(operand.name);
  if (slot == nullptr) fail(concat(operand.name, " is not declared"));
  return slot;
}

int32_t Decoder::source(const Operand& o, PtxType type) {
  const int bytes = bytes_of(type);
  switch (o.kind) {
    case Operand::Kind::kInteger: {
      if (is_float(type) || type == PtxType::kPred || bytes > 8) {
        fail("an integer stands where none may");
        return 0;
      }
      const uint64_t mask = bytes == 8 ? ~uint64_t{0} : (uint64_t{1} << bytes * 8) - 1;
      const int64_t value = static_cast<int64_t>(o.bits);
      if (bytes < 8 && (value < -(int64_t{1} << (bytes * 8 - 1)) || value > int64_t(mask))) {
        fail("an integer does not fit the type");
      }
      return constant(o.bits & mask);
    }
    case Operand::Kind::kFloat: {
      if (bytes == 8 && (type == PtxType::kF64 || is_bits(type)) && o.wide) return constant(o.bits);
      if (bytes == 4 && (type == PtxType::kF32 || is_bits(type))) {
        if (!o.wide) return constant(o.bits);
        return constant(std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(o.bits))));
      }
      if (type == PtxType::kF64 && !o.wide) {
        return constant(std::bit_cast<uint64_t>(
            static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(o.bits)))));
      }
      fail("a number with a point stands where none may");
      return 0;
    }
    case Operand::Kind::kName: {
      if (o.negated || !o.second.empty()) {
        fail("an operand has a form that is not known here");
        return 0;
      }
      const int32_t* slot = named(o);
      if (slot == nullptr) return 0;
      if (function_->slots[*slot].kind == Slot::Kind::kSpecial && root() != "mov") {
        fail(concat(o.name, ", a special register, stands where only registers may"));
      }
      if (o.offset != 0 || !may_stand(type_of(*slot), type)) {
        fail(concat(o.name, " is of type .", name_of(type_of(*slot)), ", not .", name_of(type)));
      }
      reads(*slot);
      return *slot;
    }
    default: fail("an operand has a form that is not known here"); return 0;
  }
}

int32_t Decoder::source_or_symbol(int i, PtxType type) {
  const Operand& o = operand(i);
  const Symbol* symbol = o.kind == Operand::Kind::kName ? names_.find_symbol(o.name) : nullptr;
  if (symbol == nullptr) return source(o, type);
  const bool small = symbol->space == Space::kShared || symbol->space == Space::kLocal;
  if (is_float(type) || !(bytes_of(type) == 8 || (bytes_of(type) == 4 && small))) {
    fail("an address has 64 bits, or 32 in shared and local memory");
  }
  return constant(static_cast<uint64_t>(symbol->address + o.offset));
}

int32_t Decoder::wide_source(const Operand& o, PtxType type) {
  if (o.kind != Operand::Kind::kName || o.negated || !o.second.empty()) return source(o, type);
  const int32_t* slot = named(o);
  if (slot == nullptr) return 0;
  if (!may_stand_wide(type_of(*slot), type)) {
    fail(concat(o.name, " is of type .", name_of(type_of(*slot)), ", not .", name_of(type)));
  }
  reads(*slot);
  return *slot;
}

int32_t Decoder::destination(const Operand& o, PtxType type) {
  if (o.kind == Operand::Kind::kSink) {
    // Written by all and read by none.
    Slot slot;
    slot.type = type;
    slot.name = "_";
    function_->slots.push_back(slot);
    return static_cast<int32_t>(function_->slots.size() - 1);
  }
  if (o.kind != Operand::Kind::kName || o.negated || !o.second.empty()) {
    fail("what is written must be a register");
    return 0;
  }
  const int32_t* slot = named(o);
  if (slot == nullptr) return 0;
  if (function_->slots[*slot].kind != Slot::Kind::kRegister) {
    fail(concat(o.name, " cannot be written"));
  }
  if (!may_stand(type_of(*slot), type)) {
    fail(concat(o.name, " is of type .", name_of(type_of(*slot)), ", not .", name_of(type)));
  }
  writes(*slot);
  return *slot;
}

int32_t Decoder::wide_destination(const Operand& o, PtxType type) {
  if (o.kind == Operand::Kind::kName) {
    const int32_t* slot = names_.find_register(o.name);
    if (slot != nullptr && function_->slots[*slot].kind == Slot::Kind::kRegister &&
        may_stand_wide(type_of(*slot), type)) {
      writes(*slot);
      return *slot;
    }
  }
  return destination(o, type);
}

int32_t Decoder::predicate(int i, bool* negated) {
  Operand o = operand(i);
  if (o.negated && negated != nullptr) {
    *negated = true;
    o.negated = false;
  }
  return source(o, PtxType::kPred);
}

void Decoder::sources(int i, PtxType type, int count) {
  const Operand& o = operand(i);
  if (o.kind != Operand::Kind::kVector || static_cast<int>(o.items.size()) != count) {
    fail(concat("operand ", i + 1, " must be a vector of ", count));
    in.list.resize(in.list.size() + count, 0);
    return;
  }
  for (const Operand& item : o.items) in.list.push_back(source(item, type));
}

void Decoder::destinations(int i, PtxType type, int count) {
  const Operand& o = operand(i);
  if (o.kind != Operand::Kind::kVector || static_cast<int>(o.items.size()) != count) {
    fail(concat("operand ", i + 1, " must be a vector of ", count));
    in.list.resize(in.list.size() + count, 0);
    return;
  }
  for (const Operand& item : o.items) in.list.push_back(destination(item, type));
}

int64_t Decoder::integer(int i, int64_t least, int64_t most) {
  const Operand& o = operand(i);
  const int64_t value = static_cast<int64_t>(o.bits);
  if (o.kind != Operand::Kind::kInteger || value < least || value > most) {
    fail(concat("operand ", i + 1, " must be a constant from ", least, " to ", most));
    return least;
  }
  return value;
}

void Decoder::address(int i, int op_slot, Space space) {
  address_of(operand(i), op_slot, 0, space);
}

void Decoder::address_of(const Operand& o, int op_slot, int number_slot, Space space) {
  in.space = space;
  if (o.kind != Operand::Kind::kAddress) {
    fail("an address in brackets is missing");
    return;
  }
  in.number[number_slot] = o.offset;
  if (o.name.empty()) {
    in.op[op_slot] = constant(0);
    return;
  }
  if (const Symbol* symbol = names_.find_symbol(o.name)) {
    const bool same =
        symbol->space == space || (symbol->space == Space::kShared && space == Space::kCluster);
    if (!same) fail(concat(o.name, " lies in another space"));
    in.op[op_slot] = constant(static_cast<uint64_t>(symbol->address));
    return;
  }
  Operand base;
  base.kind = Operand::Kind::kName;
  base.name = o.name;
  const int32_t* slot = named(base);
  if (slot == nullptr) return;
  // Addresses of 64 bits; those of the small spaces may have 32.
  const bool small = space == Space::kShared || space == Space::kCluster ||
                     space == Space::kLocal || space == Space::kParam;
  const PtxType own = type_of(*slot);
  if (!(may_stand(own, PtxType::kU64) || (small && may_stand(own, PtxType::kU32))) ||
      own == PtxType::kF64 || own == PtxType::kF32) {
    fail(concat(o.name, " of type .", name_of(own), " is no address"));
  }
  reads(*slot);
  in.op[op_slot] = *slot;
}

bool take_scope(Decoder& d) {
  if (d.target_at_least(90) && d.version_at_least(78) && d.take("cluster")) return true;
  return !d.take_any({"cta", "gpu", "sys"}).empty();
}

bool take_shared(Decoder& d) {
  return d.take("shared") || (d.version_at_least(78) && d.take("shared::cta"));
}

bool Decoder::target_at_least(int number) const {
  return program_.target_at_least(number);
}

absl::StatusOr<Instruction> decode_statement(const Program& program, Function* function,
                                             const Names& names, const Statement& statement) {
  using Decode = void (*)(Decoder&);
  static const auto* const kDecoders =
      new absl::flat_hash_map<std::string, Decode>{{"mov", decode_move},
                                                   {"add", decode_integer},
                                                   {"sub", decode_integer},
                                                   {"mul", decode_integer},
                                                   {"mad", decode_integer},
                                                   {"div", decode_integer},
                                                   {"rem", decode_integer},
                                                   {"min", decode_integer},
                                                   {"max", decode_integer},
                                                   {"abs", decode_integer},
                                                   {"neg", decode_integer},
                                                   {"and", decode_bits},
                                                   {"or", decode_bits},
                                                   {"xor", decode_bits},
                                                   {"not", decode_bits},
                                                   {"shl", decode_bits},
                                                   {"shr", decode_bits},
                                                   {"lop3", decode_bits},
                                                   {"prmt", decode_bits},
                                                   {"bfe", decode_bits},
                                                   {"bfi", decode_bits},
                                                   {"shf", decode_bits},
                                                   {"popc", decode_bits},
                                                   {"clz", decode_bits},
                                                   {"brev", decode_bits},
                                                   {"dp4a", decode_bits},
                                                   {"dp2a", decode_bits},
                                                   {"fma", decode_float},
                                                   {"copysign", decode_float},
                                                   {"sqrt", decode_special_function},
                                                   {"rcp", decode_special_function},
                                                   {"rsqrt", decode_special_function},
                                                   {"ex2", decode_special_function},
                                                   {"lg2", decode_special_function},
                                                   {"tanh", decode_special_function},
                                                   {"sin", decode_special_function},
                                                   {"cos", decode_special_function},
                                                   {"setp", decode_compare},
                                                   {"selp", decode_compare},
                                                   {"slct", decode_compare},
                                                   {"testp", decode_compare},
                                                   {"cvt", decode_convert},
                                                   {"ld", decode_load},
                                                   {"st", decode_store},
                                                   {"atom", decode_atomic},
                                                   {"red", decode_atomic},
                                                   {"cvta", decode_address},
                                                   {"prefetch", decode_address},
                                                   {"createpolicy", decode_address},
                                                   {"bra", decode_flow},
                                                   {"ret", decode_flow},
                                                   {"exit", decode_flow},
                                                   {"trap", decode_flow},
                                                   {"membar", decode_flow},
                                                   {"fence", decode_flow},
                                                   {"nanosleep", decode_flow},
                                                   {"bar", decode_barrier},
                                                   {"barrier", decode_barrier},
                                                   {"shfl", decode_warp},
                                                   {"vote", decode_warp},
                                                   {"activemask", decode_warp},
                                                   {"redux", decode_warp},
                                                   {"cp", decode_copy},
                                                   {"mma", decode_matrix},
                                                   {"ldmatrix", decode_matrix},
                                                   {"stmatrix", decode_matrix},
                                                   {"mbarrier", decode_mbarrier},
                                                   {"mapa", decode_cluster},
                                                   {"elect", decode_cluster},
                                                   {"setmaxnreg", decode_cluster},
                                                   {"wgmma", decode_wgmma},
                                                   {"griddepcontrol", decode_flow},
                                                   {"movmatrix", decode_matrix}};
  const auto found = kDecoders->find(statement.root);
  Decoder decoder(program, function, names, statement);
  if (found == kDecoders->end()) {
    decoder.fail("the instruction is not known");
    return decoder.status();
  }
  const bool hopper = found->second == decode_mbarrier || found->second == decode_cluster ||
                      found->second == decode_wgmma || statement.root == "griddepcontrol";
  if (hopper && !(decoder.target_at_least(90) && decoder.version_at_least(80))) {
    decoder.fail("this is of sm_90 and PTX 8.0");
    return decoder.status();
  }
  found->second(decoder);
  decoder.expect_no_more();
  if (!decoder.ok()) return decoder.status();
  CHECK(decoder.in.run != nullptr || decoder.in.flow == Flow::kBranch ||
        decoder.in.flow == Flow::kExit || decoder.in.flow == Flow::kTrap);
  return std::move(decoder.in);
}

}  // namespace lw::ptx_interpreter
