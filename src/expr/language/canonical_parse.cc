// Reads a canonical text (canonical.cc) back: what a stored workload computes, though nobody has its
// source any more. Names are the text's own: tensors t0, t1, ..., axes a0, ... and r0, ....
//
// The text says no types inside bodies. They follow from the leaves: tensors and constants have
// theirs, axes and bare numbers are i64, and every operation gives one from its arguments. Whether it
// is a canonical text at all is known in the end: the program must print the same.
#include <algorithm>
#include <charconv>
#include <optional>

#include "absl/strings/numbers.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/expr/intern.h"
#include "src/expr/language/syntax.h"
#include "src/expr/limits.h"
#include "src/expr/scalar.h"

namespace lw {
namespace {

constexpr std::string_view kHead = "loopwright expression 1\n";

absl::Status bad(std::string_view what) {
  return absl::InvalidArgumentError(concat("no canonical text: ", what));
}

ExprOp op_named(std::string_view name) {
  for (int i = static_cast<int>(ExprOp::kRead); i < kExprOps; ++i) {
    if (op_name(static_cast<ExprOp>(i)) == name) return static_cast<ExprOp>(i);
  }
  return ExprOp::kConst;
}

// One line's words, from left to right.
class Line {
 public:
  explicit Line(std::string_view text) : text_(text) {}
  bool at_end() const { return at_ == text_.size(); }
  char next() const { return at_end() ? '\0' : text_[at_]; }
  bool take(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }
  // Up to the next of these characters, or the end.
  std::string_view until(std::string_view ends) {
    const size_t begin = at_;
    at_ = std::min(text_.find_first_of(ends, at_), text_.size());
    return text_.substr(begin, at_ - begin);
  }
  bool take_number(int64_t* value) {
    const char* begin = text_.data() + at_;
    const auto [end, code] = std::from_chars(begin, text_.data() + text_.size(), *value);
    if (code != std::errc()) return false;
    at_ += static_cast<size_t>(end - begin);
    return true;
  }
  // "[16,8]"
  bool take_extents(std::vector<int64_t>* extents) {
    if (!take("[")) return false;
    if (take("]")) return true;
    do {
      if (!take_number(&extents->emplace_back()) || extents->size() > kMaxRank) return false;
    } while (take(","));
    return take("]");
  }

 private:
  std::string_view text_;
  size_t at_ = 0;
};

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  absl::StatusOr<Program> run() {
    if (text_.size() > kMaxFileBytes) return bad("longer than a megabyte");
    if (text_.substr(0, kHead.size()) != kHead) return bad("of another version of the language");
    RETURN_IF_ERROR(read_heads());
    for (size_t i = 0; i < lines_.size(); ++i) RETURN_IF_ERROR(read_body(i));
    // In the order of the text an output stands before the temporaries that it reads.
    Program program{"op", tensors_};
    ASSIGN_OR_RETURN(const std::vector<int> order, definition_order(program));
    for (size_t i = 0; i < order.size(); ++i) {
      position_[static_cast<size_t>(order[i])] = static_cast<int>(i);
    }
    for (size_t i = 0; i < lines_.size(); ++i) RETURN_IF_ERROR(read_body(i));
    for (size_t i = 0; i < order.size(); ++i) {
      program.tensors[i] = std::move(tensors_[static_cast<size_t>(order[i])]);
    }
    RETURN_IF_ERROR(verify(program));
    if (canonical_text(program) != text_) return bad("what it says is written in another way");
    return program;
  }

 private:
  // What each line declares; what is computed stays in lines_.
  absl::Status read_heads() {
    for (size_t at = kHead.size(); at < text_.size();) {
      const size_t end = text_.find('\n', at);
      if (end == std::string_view::npos) return bad("its last line does not end");
      const size_t number = tensors_.size();
      position_.push_back(static_cast<int>(number));
      Line& line = lines_.emplace_back(text_.substr(at, end - at));
      at = end + 1;
      Tensor& tensor = tensors_.emplace_back();
      tensor.name = concat("t", number);
      if (number >= 2 * kMaxDefinitions || !line.take(tensor.name + " ")) return bad("its lines");
      const std::string_view role = line.until(" ");
      if (role == "in") tensor.role = Role::kInput;
      else if (role == "out") tensor.role = Role::kOutput;
      else if (role != "temp") return bad("a role");
      if (!line.take(" ") || !parse_type(line.until("["), &tensor.type) ||
          !line.take_extents(&tensor.shape)) {
        return bad(concat("the type of ", tensor.name));
      }
      tensor.is_const = tensor.role == Role::kInput && line.take(" const");
      const bool defined = tensor.role == Role::kInput ? line.at_end() : line.take(" = ");
      if (!defined) {
        return bad(concat("the definition of ", tensor.name));
      }
    }
    return absl::OkStatus();
  }

  absl::Status read_body(size_t number) {
    Tensor& tensor = tensors_[number];
    if (tensor.role == Role::kInput) return absl::OkStatus();
    tensor.axes.clear(), tensor.reduce_axes.clear();
    Line line = lines_[number];
    line_ = &line;
    for (Reduce reduce : {Reduce::kSum, Reduce::kProd, Reduce::kMax, Reduce::kMin}) {
      if (!line_->take(concat(reduction_name(reduce), "["))) continue;
      tensor.reduce = reduce;
      do {
        Axis& axis = tensor.reduce_axes.emplace_back();
        axis.name = concat("r", tensor.reduce_axes.size() - 1);
        if (!line_->take_number(&axis.extent) || tensor.reduce_axes.size() > kMaxRank) {
          return bad("a reduction's extents");
        }
      } while (line_->take(","));
      if (!line_->take("] ")) return bad("a reduction's extents");
      break;
    }
    for (size_t i = 0; i < tensor.shape.size(); ++i) {
      tensor.axes.push_back({concat("a", i), tensor.shape[i]});
    }
    spatial_ = static_cast<int64_t>(tensor.axes.size());
    Interner interner;                     // of this body
    interner_ = &interner;
    ASSIGN_OR_RETURN(tensor.body, sum(0));
    return line_->at_end() ? absl::OkStatus() : bad(concat("the end of ", tensor.name));
  }

  absl::StatusOr<Expr> make(ExprNode node) {
    return share(std::make_shared<const ExprNode>(std::move(node)));
  }
  absl::StatusOr<Expr> share(const Expr& node) {
    const Expr made = (*interner_)(node);
    if (interner_->depth(made) > 4 * kMaxDepth) return bad("an expression nested too deep");
    return made;
  }
  absl::StatusOr<Expr> number(int64_t value) {
    return make({ExprOp::kConst, Type::kI64, -1, value, 0, {}});
  }

  absl::StatusOr<Expr> make_i64(ExprOp op, std::vector<Expr> args) {
    return make({op, Type::kI64, -1, 0, 0, std::move(args)});
  }

  // term {"+" term}, a term an atom or, of i64, atom "*" number.
  absl::StatusOr<Expr> sum(int depth) {
    if (depth > 4 * kMaxDepth) return bad("an expression nested too deep");
    Expr total;
    do {
      ASSIGN_OR_RETURN(Expr term, atom(depth));
      int64_t factor = 1;
      if (line_->take("*") && (term->type != Type::kI64 || !line_->take_number(&factor))) {
        return bad("a factor");
      }
      if (factor != 1 && factor != -1) {
        ASSIGN_OR_RETURN(const Expr by, number(factor));
        ASSIGN_OR_RETURN(term, make_i64(ExprOp::kMul, {term, by}));
      }
      if (total == nullptr) {
        total = term;
        if (factor != -1) continue;
        ASSIGN_OR_RETURN(total, make_i64(ExprOp::kNeg, {term}));
        continue;
      }
      if (total->type != Type::kI64 || term->type != Type::kI64) return bad("a sum");
      ASSIGN_OR_RETURN(total, make_i64(factor == -1 ? ExprOp::kSub : ExprOp::kAdd, {total, term}));
    } while (line_->take("+"));
    return total;
  }

  absl::StatusOr<Expr> atom(int depth) {
    if (line_->take("(")) return operation(depth);
    int64_t value = 0;
    if (line_->take_number(&value)) return number(value);
    const std::string_view word = line_->until(" )+*:");
    if (line_->take(":")) return constant(word);
    const bool reduced = word.substr(0, 1) == "r";
    if ((!reduced && word.substr(0, 1) != "a") ||
        !absl::SimpleAtoi(absl::string_view(word.data() + 1, word.size() - 1), &value)) {
      return bad("an axis");
    }
    if (value < 0 || value > static_cast<int64_t>(kMaxRank)) return bad("an axis");
    return make({ExprOp::kAxis, Type::kI64, static_cast<int>(reduced ? spatial_ + value : value), 0,
                 0, {}});
  }

  // Behind the colon; a float's sign of its exponent is a "+" too.
  absl::StatusOr<Expr> constant(std::string_view type_text) {
    Type type;
    if (!parse_type(type_text, &type)) return bad("a constant's type");
    const std::string text(line_->until(" )"));
    double real = 0;
    int64_t integer = 0;
    const bool read =
        is_float(type) ? absl::SimpleAtod(text, &real) : absl::SimpleAtoi(text, &integer);
    if (!read) return bad("a constant");
    return share(is_float(type) ? make_const(type, real) : make_int(type, integer));
  }

  // Behind its parenthesis.
  absl::StatusOr<Expr> operation(int depth) {
    const ExprOp op = op_named(line_->until(" )"));
    if (op == ExprOp::kConst) return bad("an operation");
    ExprNode node{op, Type::kBool, -1, 0, 0, {}};
    if (op == ExprOp::kCast) {
      if (!line_->take(" ") || !parse_type(line_->until(" )"), &node.type)) return bad("a cast");
    } else if (op == ExprOp::kRead) {
      int64_t tensor = 0;
      if (!line_->take(" t") || !line_->take_number(&tensor) || tensor < 0 ||
          tensor >= static_cast<int64_t>(tensors_.size())) {
        return bad("a read");
      }
      node.index = position_[static_cast<size_t>(tensor)];
      node.type = tensors_[static_cast<size_t>(tensor)].type;
    }
    while (line_->take(" ")) {
      if (node.args.size() > kMaxRank) return bad("an operation's arguments");
      ASSIGN_OR_RETURN(node.args.emplace_back(), sum(depth + 1));
    }
    if (!line_->take(")")) return bad("an operation's end");
    const bool typed = op == ExprOp::kCast || op == ExprOp::kRead || is_comparison(op);
    const size_t giver = op == ExprOp::kSelect ? 1 : 0;
    if (!typed && node.args.size() <= giver) return bad("an operation without arguments");
    if (!typed) node.type = node.args[giver]->type;
    return make(std::move(node));
  }

  std::string_view text_;
  std::vector<Line> lines_;                // what computes each tensor
  std::vector<Tensor> tensors_;            // as the text numbers them,
  std::vector<int> position_;              // and where they come to stand
  Line* line_ = nullptr;                   // of the body that is read,
  int64_t spatial_ = 0;                    // its axes before the reduction's,
  Interner* interner_ = nullptr;           // and its nodes
};

}  // namespace

absl::StatusOr<std::vector<int>> definition_order(const Program& program) {
  std::vector<int> order = inputs(program), waiting[2];  // temporaries, outputs
  std::vector<bool> placed(program.tensors.size(), false);
  for (int t : order) placed[static_cast<size_t>(t)] = true;
  for (size_t i = program.tensors.size(); i-- > 0;) {
    const Role role = program.tensors[i].role;
    if (role != Role::kInput) waiting[role == Role::kOutput].push_back(static_cast<int>(i));
  }
  while (!waiting[0].empty() || !waiting[1].empty()) {
    const auto is_ready = [&](const std::vector<int>& next) {
      if (next.empty()) return false;
      const std::vector<int> reads = reads_of(program.tensors[static_cast<size_t>(next.back())]);
      return std::all_of(reads.begin(), reads.end(),
                         [&](int t) { return placed[static_cast<size_t>(t)]; });
    };
    std::vector<int>& next = is_ready(waiting[0]) ? waiting[0] : waiting[1];
    if (!is_ready(next)) return bad("a definition that reads what is defined after it");
    placed[static_cast<size_t>(next.back())] = true;
    order.push_back(next.back());
    next.pop_back();
  }
  return order;
}

absl::StatusOr<Program> parse_canonical(std::string_view text) { return Reader(text).run(); }

}  // namespace lw
