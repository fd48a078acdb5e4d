// The parser: tokens to syntax trees.
//
// Recursive descent with precedence climbing. A mistake breaks one statement: the parser skips to
// the next line at bracket depth 0 and goes on, keeping the statement's name if it got that far, so
// that later uses of the name are not errors too. Depth of nesting is bounded (kMaxDepth).
#include <limits>

#include "src/base/message.h"
#include "src/expr/language/lexer.h"
#include "src/expr/language/syntax.h"
#include "src/expr/limits.h"

namespace lw {
namespace {

struct BinaryRow {
  const char* text;
  ExprOp op;
  int level;                               // larger binds tighter
};
constexpr BinaryRow kBinary[] = {
    {"||", ExprOp::kOr, 1}, {"&&", ExprOp::kAnd, 2}, {"==", ExprOp::kEq, 3}, {"!=", ExprOp::kNe, 3},
    {"<", ExprOp::kLt, 3},  {"<=", ExprOp::kLe, 3},  {">", ExprOp::kGt, 3},  {">=", ExprOp::kGe, 3},
    {"+", ExprOp::kAdd, 4}, {"-", ExprOp::kSub, 4},  {"*", ExprOp::kMul, 5}, {"/", ExprOp::kDiv, 5},
    {"%", ExprOp::kMod, 5}};
constexpr int kComparisonLevel = 3, kTightest = 5;

class Parser {
 public:
  Parser(std::shared_ptr<const Source> source, Diagnostics* diagnostics)
      : source_(std::move(source)), diagnostics_(diagnostics),
        tokens_(tokenize(source_->text, diagnostics)) {}

  std::vector<OpDefinition> file() {
    std::vector<OpDefinition> ops;
    while (skip_newlines(), peek().kind != TokenKind::kEnd) {
      if (is("op")) {
        ops.push_back(op());
      } else {
        fail(concat("expected 'op' but found ", describe(peek())), "");
        while (peek().kind != TokenKind::kEnd && !is("op")) ++at_;
      }
      failed_ = false;
    }
    return ops;
  }

 private:
  // Tokens.
  const Token& peek() const { return tokens_[at_]; }
  bool is(std::string_view text) const {
    const TokenKind kind = peek().kind;
    return (kind == TokenKind::kPunctuation || kind == TokenKind::kName) && peek().text == text;
  }
  bool next_is(std::string_view text) const {
    return at_ + 1 < tokens_.size() && tokens_[at_ + 1].text == text;
  }
  bool accept(std::string_view text) {
    if (failed_ || !is(text)) return false;
    ++at_;
    return true;
  }
  void skip_newlines() {
    while (peek().kind == TokenKind::kNewline) ++at_;
  }
  static std::string describe(const Token& token) {
    if (token.kind == TokenKind::kEnd) return "the end of the file";
    if (token.kind == TokenKind::kNewline) return "the end of the line";
    return concat("'", token.text.substr(0, 40), "'");
  }

  void fail(std::string_view what, std::string_view hint = "") {
    const bool reported = failed_ || peek().kind == TokenKind::kBad;  // the latter by the lexer
    if (!reported) diagnostics_->error(peek().position, what, hint);
    failed_ = true;
  }
  void expect(std::string_view text) {
    if (!accept(text)) fail(concat("expected '", text, "' but found ", describe(peek())));
  }
  std::string expect_name(std::string_view what) {
    if (failed_) return "";
    if (peek().kind != TokenKind::kName) {
      fail(concat("expected ", what, " but found ", describe(peek())));
      return "";
    }
    if (is_reserved(peek().text)) {
      fail(concat("'", peek().text, "' is reserved and cannot be ", what));
      return "";
    }
    return std::string(tokens_[at_++].text);
  }
  // Items separated by commas up to `close` (already opened); a comma may stand before it.
  template <class Item>
  void list(std::string_view close, const Item& item) {
    while (!failed_ && !is(close)) {
      item();
      if (!accept(",")) break;
    }
    expect(close);
  }

  // Ops and statements.
  OpDefinition op() {
    OpDefinition definition;
    auto syntax = std::make_shared<OpSyntax>();
    syntax->source = source_;
    definition.doc = comment_above(peek().position);
    ++at_;
    syntax->position = peek().position;
    syntax->name = expect_name("an op's name");
    expect("(");
    list(")", [&] { parameter(&definition, syntax.get()); });
    expect("{");
    if (failed_) {  // a broken head: its body may still be read, with unknown parameters
      syntax->lost_names = true;
      while (peek().kind != TokenKind::kEnd && !is("{") && !is("}") && !is("op")) ++at_;
      failed_ = false;
      if (!accept("{")) accept("}");
    }
    body(syntax.get());
    definition.name = syntax->name;
    definition.syntax = std::move(syntax);
    return definition;
  }

  void parameter(OpDefinition* definition, OpSyntax* syntax) {
    ParameterSyntax parameter;
    parameter.position = peek().position;
    parameter.name = expect_name("a parameter's name");
    expect("=");
    if (failed_) return;
    std::string text;
    const int position = peek().position;
    if (is("-")) text = tokens_[at_++].text;
    const bool value = peek().kind == TokenKind::kName || peek().kind == TokenKind::kNumber;
    if (value) text += peek().text;
    if (!value || !parse_parameter_value(text, &parameter.value)) {
      at_ -= peek().position != position;
      return fail("a default is a number, true, false or a type",
                  "a value computed from parameters is a let");
    }
    ++at_;
    definition->parameters.push_back({parameter.name, text});
    syntax->parameters.push_back(std::move(parameter));
  }

  void body(OpSyntax* syntax) {
    while (true) {
      skip_newlines();
      if (peek().kind == TokenKind::kEnd || is("op")) {
        diagnostics_->error(syntax->position, concat("op ", syntax->name, " is never closed"),
                            "its statements end with '}' on a line of its own");
        return;
      }
      if (accept("}")) return;
      Statement statement = this->statement();
      if (!failed_ && peek().kind != TokenKind::kNewline && !is("}")) {
        fail(concat("expected the end of the statement but found ", describe(peek())),
             "every definition ends with its line");
        syntax->lost_names = true;         // what follows on the line may be definitions
      }
      statement.broken = failed_;
      syntax->lost_names |= failed_ && statement.name.empty();
      if (failed_) {
        while (peek().kind != TokenKind::kNewline && peek().kind != TokenKind::kEnd && !is("}"))
          ++at_;
      }
      failed_ = false;
      syntax->statements.push_back(std::move(statement));
    }
  }

  Statement statement() {
    Statement s;
    if (accept("let")) {
      s.kind = StatementKind::kLet;
      s.position = peek().position;
      s.name = expect_name("a let's name");
      expect("=");
      s.value = expression();
    } else if (accept("in")) {
      s.kind = StatementKind::kInput;
      s.position = peek().position;
      s.name = expect_name("an input's name");
      expect(":");
      s.type = type("");
      expect("[");
      list("]", [&] { s.shape.push_back(expression()); });
      s.is_const = accept("const");
    } else {
      s.is_out = accept("out");
      s.position = peek().position;
      s.name = expect_name("a statement (in, out, let or a tensor's name)");
      expect("[");
      s.axes = axis_list();
      expect("=");
      s.value = expression();
    }
    return s;
  }

  // TYPE or wide(TYPE).
  TypeSyntax type(std::string_view hint) {
    TypeSyntax type;
    if (failed_) return type;
    type.wide = is("wide") && next_is("(");
    if (type.wide) at_ += 2;
    type.position = peek().position;
    if (peek().kind == TokenKind::kName) {
      type.name = tokens_[at_++].text;
    } else {
      fail(concat("expected a type but found ", describe(peek())), hint);
    }
    if (type.wide) expect(")");
    return type;
  }

  std::vector<AxisSyntax> axis_list() {
    std::vector<AxisSyntax> axes;
    list("]", [&] {
      AxisSyntax axis;
      axis.position = peek().position;
      axis.name = expect_name("an axis");
      expect(":");
      axis.extent = expression();
      if (!failed_) axes.push_back(std::move(axis));
    });
    return axes;
  }

  // Expressions. After a failure they return an empty node without moving on.
  NodePtr finish(Node node) {
    NodePtr done = make_node(std::move(node));
    if (done->depth > kMaxDepth) fail(too_deep());
    return done;
  }
  static std::string too_deep() {
    return concat("this expression nests more than ", kMaxDepth, " deep");
  }

  NodePtr expression() {
    if (++nesting_ > kMaxDepth) fail(too_deep());
    NodePtr result = failed_ ? std::make_shared<Node>() : binary(1);
    --nesting_;
    return result;
  }

  NodePtr binary(int level) {
    NodePtr left = unary();
    while (!failed_) {
      const BinaryRow* row = nullptr;
      for (const BinaryRow& candidate : kBinary) {
        if (peek().kind == TokenKind::kPunctuation && is(candidate.text)) row = &candidate;
      }
      if (!row || row->level < level) break;
      Node node;
      node.kind = NodeKind::kBinary;
      node.position = peek().position;
      node.op = row->op;
      ++at_;
      NodePtr right = row->level == kTightest ? unary() : binary(row->level + 1);
      node.args = {left, right};
      left = finish(std::move(node));
      if (row->level == kComparisonLevel) refuse_chain();
    }
    return left;
  }

  void refuse_chain() {
    for (const BinaryRow& row : kBinary) {
      if (row.level == kComparisonLevel && is(row.text)) {
        fail("comparisons do not chain", "a < b && b < c");
      }
    }
  }

  NodePtr unary() {
    if (failed_ || !(is("-") || is("!"))) return primary();
    if (++nesting_ > kMaxDepth) fail(too_deep());
    Node node;
    node.kind = NodeKind::kUnary;
    node.position = peek().position;
    node.op = is("-") ? ExprOp::kNeg : ExprOp::kNot;
    if (!failed_) ++at_;
    node.args = {unary()};
    --nesting_;
    return finish(std::move(node));
  }

  NodePtr primary() {
    Node node;
    node.position = peek().position;
    if (failed_) return make_node(std::move(node));
    if (accept("(")) {
      NodePtr inner = expression();
      expect(")");
      return inner;
    }
    if (peek().kind == TokenKind::kNumber) return number(std::move(node));
    if (peek().kind != TokenKind::kName) {
      fail(concat("expected an expression but found ", describe(peek())));
      return make_node(std::move(node));
    }
    return named(std::move(node));
  }

  NodePtr number(Node node) {
    ParameterValue value;
    if (!parse_parameter_value(peek().text, &value)) fail("this number is out of range");
    node.kind = NodeKind::kNumber;
    node.is_integer = value.kind == ParameterKind::kInteger;
    node.integer = value.integer;
    node.number = value.number;
    if (!failed_) ++at_;
    return make_node(std::move(node));
  }

  NodePtr named(Node node) {
    node.name = peek().text;
    const bool call = next_is("("), index = next_is("[");
    if (node.name == "inf" || node.name == "true" || node.name == "false") {
      node.kind = node.name == "inf" ? NodeKind::kNumber : NodeKind::kBool;
      node.integer = node.name == "true";
      node.number = std::numeric_limits<double>::infinity();
      ++at_;
      return make_node(std::move(node));
    }
    if (is_reserved(node.name)) {
      fail(concat("'", node.name, "' is reserved and is no value"));
      return make_node(std::move(node));
    }
    if (index && reduction_named(node.name, &node.reduce)) return reduction(std::move(node));
    if (call) return function(std::move(node));
    ++at_;
    node.kind = index ? NodeKind::kRead : NodeKind::kName;
    if (accept("[")) list("]", [&] { node.args.push_back(expression()); });
    return finish(std::move(node));
  }

  NodePtr reduction(Node node) {
    node.kind = NodeKind::kReduce;
    at_ += 2;
    node.axes = axis_list();
    if (!failed_ && node.axes.empty())
      fail("a reduction needs at least one axis", "sum[k: K](...)");
    expect("(");
    node.args = {expression()};
    expect(")");
    return finish(std::move(node));
  }

  NodePtr function(Node node) {
    size_t arity = 0;
    if (node.name == "where") node.kind = NodeKind::kWhere, arity = 3;
    else if (node.name == "clamp") node.kind = NodeKind::kClamp, arity = 3;
    else if (node.name == "pad") node.kind = NodeKind::kPad, arity = 2;
    else if (node.name == "cast") return cast(std::move(node));
    else node.kind = NodeKind::kCall, node.op = function_named(node.name, &arity);
    if (arity == 0) {
      Reduce reduce;
      const std::string near = nearest_name(node.name, function_names());
      fail(concat("there is no function '", node.name, "'"),
           reduction_named(node.name, &reduce) ? concat(node.name, " takes axes: ", node.name,
                                                        "[k: K](...)")
           : near.empty() ? "" : concat("did you mean '", near, "'?"));
      return make_node(std::move(node));
    }
    at_ += 2;
    list(")", [&] { node.args.push_back(expression()); });
    if (!failed_ && node.args.size() != arity) {
      diagnostics_->error(node.position, concat("'", node.name, "' takes ", arity,
                                                " arguments, not ", node.args.size()));
      failed_ = true;
    }
    if (!failed_ && node.kind == NodeKind::kPad && node.args[0]->kind != NodeKind::kRead) {
      diagnostics_->error(node.args[0]->position, "pad takes a read, such as X[i - 1]",
                          "for a condition on a whole expression use where(condition, a, b)");
      failed_ = true;
    }
    return finish(std::move(node));
  }

  NodePtr cast(Node node) {
    at_ += 2;
    node.kind = NodeKind::kCast;
    node.position = peek().position;
    node.type = type("cast(f32, x)");
    expect(",");
    node.args = {expression()};
    expect(")");
    return finish(std::move(node));
  }

  // The text of the comment lines that end on the line above `position`.
  std::string comment_above(int position) const {
    const std::string& text = source_->text;
    std::string doc;
    size_t start = text.rfind('\n', static_cast<size_t>(position));
    while (start != std::string::npos && start > 0) {
      const size_t before = text.rfind('\n', start - 1);
      const size_t begin = before == std::string::npos ? 0 : before + 1;
      size_t first = text.find_first_not_of(" \t", begin);
      if (first == std::string::npos || first >= start || text[first] != '#') break;
      first = text.find_first_not_of(' ', first + 1);
      std::string line = first < start ? text.substr(first, start - first) : "";
      doc = doc.empty() ? line : concat(line, "\n", doc);
      start = before;
    }
    return doc;
  }

  std::shared_ptr<const Source> source_;
  Diagnostics* diagnostics_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  int nesting_ = 0;
  bool failed_ = false;                    // in the current statement
};

}  // namespace

std::vector<OpDefinition> parse_ops(std::shared_ptr<const Source> source,
                                    Diagnostics* diagnostics) {
  return Parser(std::move(source), diagnostics).file();
}

}  // namespace lw
