// From PTX text to a decoded program: directives, declarations, labels and statements.
#include <algorithm>
#include <cctype>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/build/simt/ptx/interpreter/interpret.h"
#include "src/build/simt/ptx/interpreter/interpret_code.h"
#include "src/build/simt/ptx/interpreter/interpret_decode.h"
#include "src/build/simt/ptx/interpreter/interpret_lex.h"

namespace lw::ptx_interpreter {
namespace {

// Names of a block in braces, and of those around it.
struct NameScope {
  int parent = -1;
  absl::flat_hash_map<std::string, int32_t> registers, labels;
  absl::flat_hash_map<std::string, Symbol> symbols;
};

struct PendingBranch {
  size_t instruction;
  int scope;
  std::string label;
};

class PtxParser : public Names {
 public:
  PtxParser(std::string_view source, std::vector<Token> tokens)
      : source_(source), tokens_(std::move(tokens)) {}

  absl::StatusOr<std::shared_ptr<const Program>> parse() {
    scopes_.emplace_back();
    program_ = std::make_shared<Program>();
    RETURN_IF_ERROR(header());
    while (now().kind != Token::Kind::kEnd) {
      while (is(".visible") || is(".extern") || is(".weak")) advance();
      if (is(".entry")) {
        RETURN_IF_ERROR(entry());
      } else if (is(".shared")) {
        RETURN_IF_ERROR(variable(Space::kShared));
      } else {
        return bad("this stands at no module's level that we know");
      }
    }
    for (const Function& f : program_->functions) program_->entries.push_back(f.entry);
    return std::shared_ptr<const Program>(program_);
  }

  const int32_t* find_register(std::string_view name) const override {
    const int32_t* const found = find_from(scope_, &NameScope::registers, name);
    return found != nullptr ? found : special(name);
  }
  const Symbol* find_symbol(std::string_view name) const override {
    return find_from(scope_, &NameScope::symbols, name);
  }

 private:
  // What the name is in the scope or, if it is not declared there, around it; null: nothing.
  template <class V>
  const V* find_from(int scope, absl::flat_hash_map<std::string, V> NameScope::*names,
                     std::string_view name) const {
    for (; scope >= 0; scope = scopes_[scope].parent) {
      const auto found = (scopes_[scope].*names).find(std::string(name));
      if (found != (scopes_[scope].*names).end()) return &found->second;
    }
    return nullptr;
  }

  const Token& now() const { return tokens_[at_]; }
  void advance() {
    if (at_ + 1 < tokens_.size()) ++at_;
  }
  bool is(std::string_view text) const {
    return now().kind != Token::Kind::kEnd && now().text == text;
  }
  bool accept(std::string_view text) {
    if (!is(text)) return false;
    advance();
    return true;
  }
  absl::Status bad(std::string_view what) const {
    size_t begin = source_.rfind('\n', now().begin);
    begin = begin == std::string_view::npos ? 0 : begin + 1;
    const size_t end = std::min(source_.find('\n', begin), source_.size());
    return statement_error(now().line, source_.substr(begin, end - begin), what);
  }
  absl::Status expect(std::string_view text) {
    if (accept(text)) return absl::OkStatus();
    return bad(concat("'", text, "' is missing before '", now().text, "'"));
  }
  absl::StatusOr<int64_t> number() {
    if (now().kind != Token::Kind::kInteger) return bad("a number is missing");
    const int64_t value = static_cast<int64_t>(now().bits);
    if (value < 0 || value > (int64_t{1} << 40)) return bad("the number is out of range");
    advance();
    return value;
  }
  absl::StatusOr<std::string> word() {
    if (now().kind != Token::Kind::kWord) return bad("a name is missing");
    std::string text(now().text);
    advance();
    return text;
  }

  absl::Status header() {
    RETURN_IF_ERROR(expect(".version"));
    if (now().kind != Token::Kind::kFloat) return bad("a version is missing");
    const std::string_view version = now().text;
    if (version.size() != 3) return bad("the version is none we know");
    program_->version = (version[0] - '0') * 10 + version[2] - '0';
    advance();
    RETURN_IF_ERROR(expect(".target"));
    ASSIGN_OR_RETURN(program_->target, word());
    if (program_->target.substr(0, 3) != "sm_") return bad("the target is none we know");
    RETURN_IF_ERROR(expect(".address_size"));
    if (!is("64")) return bad("addresses have 64 bits");
    advance();
    return absl::OkStatus();
  }

  // .shared .align 16 .b8 name[bytes];
  // ".b32", without the dot.
  PtxType type_here() const {
    return now().text.size() < 2 ? PtxType::kNone : type_named(now().text.substr(1));
  }

  // Of ".align 16"; 1: none is given.
  absl::StatusOr<int64_t> alignment_here() { return accept(".align") ? number() : 1; }

  absl::Status variable(Space space) {
    advance();
    ASSIGN_OR_RETURN(int64_t alignment, alignment_here());
    if (alignment < 1 || (alignment & (alignment - 1)) != 0) return bad("no power of two");
    const PtxType type = type_here();
    if (type == PtxType::kNone || type == PtxType::kPred) return bad("a type is missing");
    alignment = std::max<int64_t>(alignment, bytes_of(type));
    advance();
    ASSIGN_OR_RETURN(const std::string name, word());
    bool open = false;
    int64_t bytes = bytes_of(type);
    if (accept("[")) {
      open = is("]");
      if (!open) {
        ASSIGN_OR_RETURN(const int64_t count, number());
        bytes *= count;
      }
      RETURN_IF_ERROR(expect("]"));
    }
    RETURN_IF_ERROR(expect(";"));
    if (open && (space != Space::kShared || scope_ != 0)) return bad("the array has no size");
    int64_t& used = space == Space::kShared ? shared_bytes_ : function_.entry.local_bytes;
    const int64_t base = space == Space::kShared ? kSharedBase : kLocalBase;
    Symbol symbol{space, base + (used + alignment - 1) / alignment * alignment};
    if (!open) used = symbol.address - base + bytes;
    if (open) {
      // Dynamic memory lies behind all that has a size, which therefore must come first.
      symbol.address = base + (used + 1023) / 1024 * 1024;
      used = symbol.address - base;
    }
    if (!scopes_[scope_].symbols.try_emplace(name, symbol).second) return bad("declared twice");
    return absl::OkStatus();
  }

  absl::Status entry() {
    advance();
    function_ = {};
    PtxEntry& e = function_.entry;
    specials_.clear();
    branches_.clear();
    ASSIGN_OR_RETURN(e.name, word());
    scopes_.resize(1);
    open_scope(0);
    if (accept("(") && !accept(")")) {
      do {
        RETURN_IF_ERROR(parameter());
      } while (accept(","));
      RETURN_IF_ERROR(expect(")"));
    }
    while (!is("{")) RETURN_IF_ERROR(directive());
    const int64_t module_shared = shared_bytes_;
    RETURN_IF_ERROR(expect("{"));
    RETURN_IF_ERROR(body());
    e.static_shared_bytes = shared_bytes_;
    shared_bytes_ = module_shared;
    for (const PendingBranch& b : branches_) RETURN_IF_ERROR(resolve(b));
    // Falling off the end returns.
    Instruction end;
    end.flow = Flow::kExit;
    end.line = now().line;
    end.text = "}";
    function_.code.push_back(end);
    for (const Function& other : program_->functions) {
      if (other.entry.name == e.name) return bad(concat("two entries are named ", e.name));
    }
    program_->functions.push_back(std::move(function_));
    scope_ = 0;
    return absl::OkStatus();
  }

  absl::Status parameter() {
    RETURN_IF_ERROR(expect(".param"));
    ASSIGN_OR_RETURN(const int64_t alignment, alignment_here());
    const PtxType type = type_here();
    if (type == PtxType::kNone || type == PtxType::kPred) return bad("a type is missing");
    advance();
    PtxEntry::Parameter p;
    p.bytes = bytes_of(type);
    if (accept(".ptr")) {
      accept(".global");
      RETURN_IF_ERROR(alignment_here().status());
    }
    ASSIGN_OR_RETURN(p.name, word());
    p.alignment = std::max<int64_t>(alignment, p.bytes);
    if (accept("[")) {
      ASSIGN_OR_RETURN(const int64_t count, number());
      p.bytes *= count;
      RETURN_IF_ERROR(expect("]"));
    }
    PtxEntry& e = function_.entry;
    p.offset = (e.parameter_bytes + p.alignment - 1) / p.alignment * p.alignment;
    e.parameter_bytes = p.offset + p.bytes;
    const auto found = scopes_[scope_].symbols.try_emplace(p.name, Symbol{Space::kParam, p.offset});
    if (!found.second) return bad("declared twice");
    e.parameters.push_back(std::move(p));
    return absl::OkStatus();
  }

  absl::Status directive() {
    PtxEntry& e = function_.entry;
    if (is(".maxntid") || is(".reqntid") || is(".reqnctapercluster")) {
      e.exact_items |= is(".reqntid");
      auto& out = is(".reqnctapercluster") ? e.cluster : e.max_items;
      advance();
      out = {1, 1, 1};
      int d = 0;
      do {
        if (d == 3) return bad("there are three dimensions");
        ASSIGN_OR_RETURN(out[d], number());
        ++d;
      } while (accept(","));
      return absl::OkStatus();
    }
    if (accept(".minnctapersm") || accept(".maxnreg") || accept(".maxclusterrank")) {
      return number().status();
    }
    if (accept(".explicitcluster")) return absl::OkStatus();
    return bad("the directive is not known");
  }

  void open_scope(int parent) {
    scopes_.emplace_back();
    scopes_.back().parent = parent;
    scope_ = static_cast<int>(scopes_.size()) - 1;
  }

  absl::Status body() {
    int depth = 1;
    while (depth > 0) {
      if (now().kind == Token::Kind::kEnd) return bad("a } is missing");
      if (accept("{")) {
        open_scope(scope_);
        ++depth;
      } else if (accept("}")) {
        --depth;
        if (depth > 0) scope_ = scopes_[scope_].parent;
      } else if (is(".reg")) {
        RETURN_IF_ERROR(registers());
      } else if (is(".local")) {
        RETURN_IF_ERROR(variable(Space::kLocal));
      } else if (is(".shared")) {
        RETURN_IF_ERROR(variable(Space::kShared));
      } else if (accept(".pragma")) {
        if (!accept("nounroll") || !accept(";")) return bad("no such pragma is known");
      } else if (now().kind == Token::Kind::kWord && tokens_[at_ + 1].text == ":") {
        const std::string name(now().text);
        const auto place = static_cast<int32_t>(function_.code.size());
        if (!scopes_[scope_].labels.try_emplace(name, place).second) return bad("declared twice");
        advance();
        advance();
      } else {
        RETURN_IF_ERROR(statement());
      }
    }
    return absl::OkStatus();
  }

  absl::Status registers() {
    advance();
    const PtxType type = type_here();
    const bool known = type == PtxType::kPred || is_bits(type) || is_integer(type) ||
                       type == PtxType::kF32 || type == PtxType::kF64 || type == PtxType::kF16 ||
                       type == PtxType::kF16x2;
    if (!known || type == PtxType::kB128) return bad("registers have no such type");
    advance();
    do {
      ASSIGN_OR_RETURN(const std::string name, word());
      if (accept("<")) {
        ASSIGN_OR_RETURN(const int64_t count, number());
        RETURN_IF_ERROR(expect(">"));
        if (count > 100000) return bad("too many registers");
        for (int64_t i = 0; i < count; ++i) RETURN_IF_ERROR(add_register(concat(name, i), type));
      } else {
        RETURN_IF_ERROR(add_register(name, type));
      }
    } while (accept(","));
    return expect(";");
  }

  absl::Status add_register(const std::string& name, PtxType type) {
    Slot slot;
    slot.type = type;
    slot.name = name;
    const auto number = static_cast<int32_t>(function_.slots.size());
    if (!scopes_[scope_].registers.try_emplace(name, number).second) return bad("declared twice");
    function_.slots.push_back(std::move(slot));
    return absl::OkStatus();
  }

  // A special register gets a slot when it is first named.
  const int32_t* special(std::string_view name) const {
    const auto found = specials_.find(std::string(name));
    if (found != specials_.end()) return &found->second;
    std::optional<Slot> slot = special_slot(name, *program_);
    if (!slot.has_value()) return nullptr;
    function_.slots.push_back(*std::move(slot));
    const auto number = static_cast<int32_t>(function_.slots.size()) - 1;
    return &specials_.emplace(std::string(name), number).first->second;
  }

  absl::Status resolve(const PendingBranch& b) {
    Instruction& in = function_.code[b.instruction];
    if (const int32_t* const found = find_from(b.scope, &NameScope::labels, b.label)) {
      in.target = *found;
      return absl::OkStatus();
    }
    return statement_error(in.line, in.text, concat("label ", b.label, " is not declared"));
  }

  absl::StatusOr<Operand> operand();
  absl::Status address(Operand* out);
  absl::Status statement();

  std::string_view source_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  std::shared_ptr<Program> program_;
  // Looking a special register up may give it a slot.
  mutable Function function_;
  mutable absl::flat_hash_map<std::string, int32_t> specials_;
  std::vector<NameScope> scopes_;
  int scope_ = 0;
  std::vector<PendingBranch> branches_;
  int64_t shared_bytes_ = 0;  // of variables with a size
};

absl::Status PtxParser::address(Operand* out) {
  out->kind = Operand::Kind::kAddress;
  if (now().kind == Token::Kind::kWord) {
    ASSIGN_OR_RETURN(out->name, word());
  } else if (now().kind == Token::Kind::kInteger) {
    out->offset = static_cast<int64_t>(now().bits);
    advance();
  } else {
    return bad("an address is missing");
  }
  if (is("+") || is("-")) {
    const bool minus = is("-");
    advance();
    const bool negative = accept("-") != minus;
    ASSIGN_OR_RETURN(const int64_t value, number());
    out->offset += negative ? -value : value;
  }
  while (accept(",")) {
    ASSIGN_OR_RETURN(Operand item, operand());
    out->items.push_back(std::move(item));
  }
  return expect("]");
}

absl::StatusOr<Operand> PtxParser::operand() {
  Operand out;
  if (accept("{")) {
    out.kind = Operand::Kind::kVector;
    do {
      ASSIGN_OR_RETURN(Operand item, operand());
      out.items.push_back(std::move(item));
    } while (accept(","));
    RETURN_IF_ERROR(expect("}"));
    return out;
  }
  if (accept("[")) {
    RETURN_IF_ERROR(address(&out));
    return out;
  }
  const bool minus = accept("-");
  if (now().kind == Token::Kind::kInteger || now().kind == Token::Kind::kFloat) {
    const bool whole = now().kind == Token::Kind::kInteger;
    out.kind = whole ? Operand::Kind::kInteger : Operand::Kind::kFloat;
    out.bits = now().bits;
    out.wide = now().wide;
    if (minus && whole) out.bits = ~out.bits + 1;
    if (minus && !whole && !out.wide) return bad("a - stands before bits of a float");
    if (minus && out.wide) out.bits ^= uint64_t{1} << 63;
    advance();
    return out;
  }
  if (minus) return bad("a - stands before what is no number");
  out.negated = accept("!");
  ASSIGN_OR_RETURN(out.name, word());
  if (out.name == "_") out.kind = Operand::Kind::kSink;
  if (accept("|")) {
    ASSIGN_OR_RETURN(out.second, word());
  }
  if (accept("+")) {
    ASSIGN_OR_RETURN(out.offset, number());
  }
  return out;
}

absl::Status PtxParser::statement() {
  Statement s;
  s.line = now().line;
  const size_t begin = now().begin;
  std::optional<Operand> guard;
  if (accept("@")) {
    guard.emplace();
    guard->kind = Operand::Kind::kName;
    guard->negated = accept("!");
    ASSIGN_OR_RETURN(guard->name, word());
  }
  if (now().kind != Token::Kind::kWord) return bad("an instruction is missing");
  std::string_view rest = now().text;
  while (true) {
    const size_t dot = rest.find('.');
    const std::string piece(rest.substr(0, dot));
    if (s.root.empty())
      s.root = piece;
    else
      s.modifiers.push_back(piece);
    if (dot == std::string_view::npos) break;
    rest.remove_prefix(dot + 1);
  }
  if (s.root.empty()) return bad("this stands in no body that we know");
  advance();
  if (!is(";")) {
    do {
      ASSIGN_OR_RETURN(Operand o, operand());
      s.operands.push_back(std::move(o));
    } while (accept(","));
  }
  const size_t end = std::min(now().begin + 1, source_.size());
  for (const char c : source_.substr(begin, end - begin)) {
    const bool space = std::isspace(static_cast<unsigned char>(c)) != 0;
    if (!space)
      s.text += c;
    else if (!s.text.empty() && s.text.back() != ' ')
      s.text += ' ';
  }
  RETURN_IF_ERROR(expect(";"));
  ASSIGN_OR_RETURN(Instruction in, decode_statement(*program_, &function_, *this, s));
  if (guard.has_value()) {
    const int32_t* slot = find_register(guard->name);
    if (slot == nullptr || function_.slots[*slot].type != PtxType::kPred) {
      return statement_error(s.line, s.text, concat(guard->name, " is no predicate"));
    }
    in.guard = *slot;
    in.guard_negated = guard->negated;
  }
  if (in.flow == Flow::kBranch) {
    branches_.push_back({function_.code.size(), scope_, s.operands[0].name});
  }
  function_.code.push_back(std::move(in));
  return absl::OkStatus();
}

}  // namespace
}  // namespace lw::ptx_interpreter

namespace lw {

absl::StatusOr<PtxModule> parse_ptx(std::string_view text) {
  ASSIGN_OR_RETURN(std::vector<ptx_interpreter::Token> tokens, ptx_interpreter::lex_ptx(text));
  ptx_interpreter::PtxParser parser(text, std::move(tokens));
  ASSIGN_OR_RETURN(auto program, parser.parse());
  return PtxModule(std::move(program));
}

}  // namespace lw
