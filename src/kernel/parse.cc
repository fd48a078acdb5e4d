// Reads what kernel/text.cc prints.
#include <algorithm>
#include <cctype>
#include <charconv>

#include "src/kernel/blocks.h"
#include "src/kernel/ops.h"
#include "src/kernel/words.h"

namespace lw {
namespace {

// Reads the text token by token; the first mistake is kept with its line and everything after it
// reads as empty, so that the grammar below needs no error paths.
class Parser {
 public:
  explicit Parser(std::string_view text) : rest_(text) {}

  absl::StatusOr<Kernel> parse() {
    Kernel& k = kernel_;
    expect("kernel");
    k.name = std::string(word());
    k.arguments = field("arguments");
    k.variables = field("variables");
    k.workspace_bytes = field("workspace");
    k.private_bytes = field("private");
    k.packed_bytes = field("packed");
    if (accept("managed")) {
      expect("=");
      integers(&k.managed_bytes);
    }
    if (accept("growth")) {
      expect("=");
      k.error_growth = number();
    }
    while (accept("buffer")) buffer();
    while (accept("registers")) registers();
    if (accept("prepack")) k.prepack = block();
    expect("body");
    k.body = block();
    space();
    if (!rest_.empty()) fail("text after the kernel");
    if (!error_.empty()) return absl::InvalidArgumentError(error_);
    return std::move(kernel_);
  }

 private:
  static bool is_word(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.';
  }

  template <class Number>
  static bool read(std::string_view text, Number* value) {
    const char* end = text.data() + text.size();
    const std::from_chars_result result = std::from_chars(text.data(), end, *value);
    return result.ec == std::errc() && result.ptr == end;
  }

  void fail(std::string_view what) {
    if (error_.empty()) {
      error_ = "kernel text, line " + std::to_string(line_) + ": " + std::string(what);
    }
    rest_ = {};
  }

  void space() {
    while (!rest_.empty() && std::isspace(static_cast<unsigned char>(rest_[0]))) {
      if (rest_[0] == '\n') ++line_;
      rest_.remove_prefix(1);
    }
  }

  std::string_view peek_word() {
    space();
    size_t size = 0;
    while (size < rest_.size() && is_word(rest_[size])) ++size;
    return rest_.substr(0, size);
  }

  std::string_view word() {
    std::string_view found = peek_word();
    if (found.empty()) fail("a name is missing");
    rest_.remove_prefix(std::min(found.size(), rest_.size()));
    return found;
  }

  bool accept(std::string_view token) {
    space();
    if (!rest_.starts_with(token)) return false;
    if (is_word(token[0]) && peek_word() != token) return false;
    rest_.remove_prefix(token.size());
    return true;
  }

  void expect(std::string_view token) {
    if (!accept(token)) fail("expected '" + std::string(token) + "'");
  }

  int64_t integer() {
    const bool negative = accept("-");
    const std::string_view digits = word();
    uint64_t value = 0;  // through unsigned, so that the smallest i64 reads back
    if (!read(digits, &value)) fail("an integer is missing");
    return static_cast<int64_t>(negative ? -value : value);
  }

  int small_integer() {
    const int64_t value = integer();
    if (value < 0 || value > INT32_MAX) fail("expected 0 .. " + std::to_string(INT32_MAX));
    return static_cast<int>(value);
  }

  int8_t byte() {
    const int64_t value = integer();
    if (value < -128 || value > 127) fail("expected -128 .. 127");
    return static_cast<int8_t>(value);
  }

  template <class List>
  void integers(List* list) {
    do list->push_back(integer());
    while (accept(","));
  }

  double number() {
    space();
    size_t size = 0;
    const auto in_number = [](char c) { return is_word(c) || c == '-' || c == '+'; };
    while (size < rest_.size() && in_number(rest_[size])) ++size;
    double value = 0;
    if (!read(rest_.substr(0, size), &value)) fail("a number is missing");
    rest_.remove_prefix(std::min(size, rest_.size()));
    return value;
  }

  int64_t field(std::string_view name) {
    expect(name);
    expect("=");
    return integer();
  }

  int numbered(char prefix, int64_t limit) {
    const std::string_view found = word();
    int value = -1;
    if (found.empty() || found[0] != prefix || !read(found.substr(1), &value) || value < 0 ||
        value >= limit) {
      fail("expected " + std::string(1, prefix) + "N below " + std::to_string(limit));
      return -1;
    }
    return value;
  }
  int reg() { return numbered('r', kernel_.registers.size()); }
  int var() { return numbered('v', kernel_.variables); }

  Affine affine_sum() {
    Affine sum;
    bool negative = accept("-");
    do {
      int64_t factor = negative ? -1 : 1;
      const std::string_view next = peek_word();
      if (!next.empty() && next[0] == 'v') {
        sum = sum + variable(var(), factor);
      } else {
        const int64_t value = integer() * factor;
        sum = sum + (accept("*") ? variable(var(), value) : affine(value));
      }
      if (accept("+")) negative = false;
      else if (accept("-")) negative = true;
      else break;
    } while (error_.empty());
    return sum;
  }

  void buffer() {
    Buffer b;
    b.name = std::string(word());
    if (!parse_type(word(), &b.type)) fail("unknown type");
    b.elements = integer();
    const std::string_view scope = word();
    const auto found = std::find(std::begin(kScopeWords), std::end(kScopeWords), scope);
    if (found == std::end(kScopeWords)) return fail("unknown scope");
    b.scope = static_cast<Scope>(found - std::begin(kScopeWords));
    if (b.scope == Scope::kManaged) b.memory = small_integer();
    const int64_t place = integer();
    if (b.scope == Scope::kArgument) b.slot = static_cast<int>(place);
    else b.offset = place;
    b.written = accept("written");
    b.swizzled = accept("swizzled");
    buffers_.push_back(b.name);
    kernel_.buffers.push_back(b);
  }

  void registers() {
    const std::string_view shape = word();  // f32x16
    const size_t cross = shape.rfind('x');
    Register r;
    if (cross == shape.npos || !parse_type(shape.substr(0, cross), &r.type) ||
        !read(shape.substr(cross + 1), &r.lanes) || r.lanes < 1) {
      return fail("expected TYPExLANES");
    }
    const int64_t count = integer();
    if (count < 0 || count > (1 << 20)) return fail("too many registers");
    kernel_.registers.insert(kernel_.registers.end(), count, r);
  }

  std::vector<Stmt> block() {
    std::vector<Stmt> list;
    if (++depth_ > 200) fail("too deep");
    expect("{");
    while (error_.empty() && !accept("}")) list.push_back(stmt());
    --depth_;
    return list;
  }

  Stmt stmt() {
    Stmt s;
    if (accept("for")) {
      s.kind = Stmt::Kind::kFor;
      s.var = var();
      expect("<");
      s.count = integer();
      s.parallel = accept("parallel");
      if (s.parallel && accept("items")) s.items = integer();
      if (s.parallel && accept("cluster")) s.cluster = integer();
      s.producer = s.parallel && accept("producer");
      s.body = block();
    } else if (accept("if")) {
      s.kind = Stmt::Kind::kIf;
      space();
      while (error_.empty() && !rest_.starts_with('{')) {
        s.conditions.push_back(affine_sum());
        expect(">=");
        expect("0");
        if (!accept(",")) break;
      }
      s.body = block();
      if (accept("else")) s.otherwise = block();
    } else if (accept("int")) {
      int_stmt(&s);
    } else if (const BlockRow* row = block_row(peek_word()); row != nullptr) {
      s.kind = Stmt::Kind::kBlock;
      expect(row->word);
      s.block = std::make_shared<const Block>(block_of(*row));
    } else {
      op(&s);
    }
    return s;
  }

  void int_stmt(Stmt* s) {
    s->kind = Stmt::Kind::kInt;
    s->var = var();
    expect("=");
    for (int i = 1; i < kIntOps; ++i) {
      if (accept(kIntWords[i])) s->int_op = static_cast<Stmt::IntOp>(i);
    }
    if (s->int_op == Stmt::IntOp::kRegister) {
      s->srcs[0] = reg();
      return;
    }
    if (s->int_op == Stmt::IntOp::kItem) return;
    s->a = affine_sum();
    if (s->int_op == Stmt::IntOp::kAffine) return;
    expect(",");
    if (s->int_op == Stmt::IntOp::kDiv || s->int_op == Stmt::IntOp::kMod) s->divisor = integer();
    else s->b = affine_sum();
  }

  void place(int* buffer, Affine* index) {
    const std::string_view name = word();
    for (size_t i = 0; i < buffers_.size(); ++i) {
      if (buffers_[i] == name) *buffer = static_cast<int>(i);
    }
    if (*buffer < 0) fail("unknown buffer '" + std::string(name) + "'");
    expect("[");
    *index = affine_sum();
    expect("]");
  }

  static const BlockRow* block_row(std::string_view word) {
    const BlockRow* row = std::find_if(kBlockRows, kBlockRows + kBlockOps,
                                       [&](const BlockRow& row) { return row.word == word; });
    return row < kBlockRows + kBlockOps ? row : nullptr;
  }

  // Whether an element of a buffer is next, and no register.
  bool at_place() {
    const size_t size = peek_word().size();
    return size < rest_.size() && rest_[size] == '[';
  }

  View view() {
    View view;
    place(&view.buffer, &view.index);
    expect("(");
    integers(&view.strides);
    expect(")");
    return view;
  }

  Block block_of(const BlockRow& row) {
    Block block;
    block.op = row.op;
    if (block.op == BlockOp::kReduce) block.reduce = reduction();
    if (computes(block.op)) block.expr_op = operation(word());
    block.dst = view();
    block.accumulate = accept("+");
    expect("=");
    if (row.sources == 0) block.integer = integer();
    for (int i = 0; i < row.sources; ++i) {
      if (i > 0) expect(",");
      block.srcs[i] = view();
    }
    if (block.op == BlockOp::kScalar) {
      expect("number");
      block.number = number();
    }
    if (block.op == BlockOp::kRequantise) {
      expect("zero");
      block.zero = byte();
      expect("in");
      block.lo = byte();
      expect(",");
      block.hi = byte();
    }
    expect("over");
    integers(&block.extents);
    while (accept("clip")) {
      Clip& clip = block.clips.emplace_back();
      clip.dim = small_integer();
      clip.first = affine_sum();
      expect("of");
      clip.size = integer();
    }
    block.pads = accept("pad");
    if (block.pads) block.integer = integer();
    if (accept("variant")) block.variant = small_integer();
    return block;
  }

  Block factors(Stmt* s) {
    Block block;
    block.op = BlockOp::kProduct;
    expect("+=");
    if (at_place()) {
      block.srcs[0] = view();
      expect(",");
    } else {
      for (size_t i = 0; i < kWideRegisters; ++i) {
        s->many.push_back(reg());
        expect(",");
      }
    }
    block.srcs[1] = view();
    expect("over");
    integers(&block.extents);
    return block;
  }

  // A statement's operation by its first word, or after "rN = ".
  void op(Stmt* s) {
    const std::string_view first = peek_word();
    const OpRow* row = std::find_if(kOpRows, kOpRows + kOps, [&](const OpRow& row) {
      return !row.gives && row.word == first;
    });
    if (row < kOpRows + kOps) {
      word();
      s->op = row->op;
    } else {
      s->dst = reg();
      expect("=");
      if (!value_op(word(), s)) return;
    }
    for (const Field part : row_of(s->op).fields) field(s, part);
  }

  bool value_op(std::string_view name, Stmt* s) {
    for (const OpRow& row : kOpRows) {
      s->op = row.op;
      if (row.word == name && row.gives) return true;
    }
    s->expr_op = operation(name);
    s->op = is_unary(s->expr_op) ? Op::kUnary : Op::kBinary;
    return error_.empty();
  }

  ExprOp operation(std::string_view name) {
    for (int i = static_cast<int>(ExprOp::kAdd); i < kExprOps; ++i) {
      if (op_name(static_cast<ExprOp>(i)) == name) return static_cast<ExprOp>(i);
    }
    fail("unknown operation '" + std::string(name) + "'");
    return ExprOp::kAdd;
  }

  Reduce reduction() {
    const std::string_view name = word();
    Reduce reduce = Reduce::kNone;
    for (int i = 0; i < 5; ++i) {
      if (kReduceWords[i] == name) reduce = static_cast<Reduce>(i);
    }
    if (reduce == Reduce::kNone) fail("unknown reduction");
    return reduce;
  }

  void field(Stmt* s, Field field) {
    switch (field) {
      case Field::kNone: break;
      case Field::kSlid: s->integer = integer(); [[fallthrough]];
      case Field::kSources:
        if (row_of(s->op).sources == 0) break;
        for (int i = 0; i == 0 || (i < 3 && accept(",")); ++i) s->srcs[i] = reg();
        break;
      case Field::kConstant:
        if (s->dst >= 0 && is_float(kernel_.registers[s->dst].type)) s->number = number();
        else s->integer = integer();
        break;
      case Field::kIndex: s->index = affine_sum(); break;
      case Field::kPlace: place(&s->buffer, &s->index); break;
      case Field::kStored:
        expect("=");
        s->srcs[0] = reg();
        break;
      case Field::kStride:
        expect("stride");
        s->stride = integer();
        break;
      case Field::kMask:
        if (accept("mask")) s->mask = reg();
        break;
      case Field::kIndices:
        if (accept("indices")) s->indices = reg();
        break;
      case Field::kNonTemporal: s->non_temporal = accept("nt"); break;
      case Field::kOnItsWay: s->on_its_way = accept("async"); break;
      case Field::kLocality:
        expect("locality");
        s->integer = integer();
        break;
      case Field::kReduce: s->reduce = reduction(); break;
      case Field::kMany: many(s); break;
      case Field::kBlock: {
        many(s);
        const size_t sources = s->many.size();
        expect("->");
        many(s);
        if (s->many.size() != 2 * sources) fail("as many destinations as sources are needed");
        break;
      }
      case Field::kGiven:
        expect("->");
        many(s);
        break;
      case Field::kFactors: s->block = std::make_shared<const Block>(factors(s)); break;
      case Field::kBox:
        s->block = std::make_shared<const Block>(block_of(row_of(BlockOp::kCopy)));
        break;
    }
  }

  void many(Stmt* s) {
    do s->many.push_back(reg());
    while (accept(","));
  }

  std::string_view rest_;
  int line_ = 1, depth_ = 0;
  std::string error_;
  std::vector<std::string> buffers_;
  Kernel kernel_;
};

}  // namespace

absl::StatusOr<Kernel> parse_kernel(std::string_view text) { return Parser(text).parse(); }

}  // namespace lw
