// Diagnostics, names and small values of the language: what lexer, parser and instantiation share.
#include "src/expr/language/syntax.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "src/base/message.h"
#include "src/expr/limits.h"
#include "src/expr/operations.h"

namespace lw {
namespace {

struct Place {
  int line = 1, column = 1;                // column in bytes
  std::string_view text;                   // of the line
};

Place place_of(std::string_view text, int position) {
  const size_t at = std::min(static_cast<size_t>(std::max(position, 0)), text.size());
  Place place;
  place.line +=
      static_cast<int>(std::count(text.begin(), text.begin() + static_cast<long>(at), '\n'));
  const size_t before = at == 0 ? std::string_view::npos : text.rfind('\n', at - 1);
  const size_t start = before == std::string_view::npos ? 0 : before + 1;
  place.column += static_cast<int>(at - start);
  place.text = text.substr(start, text.find('\n', start) - start);
  return place;
}

// The line as it can be shown in a terminal and stored in JSON, and the caret under byte `column`:
// every byte that is not printable ASCII or a tab becomes '?', a long line is cut around the caret.
std::string show_line(const Place& place) {
  constexpr size_t kWidth = 160;
  const size_t caret = static_cast<size_t>(place.column - 1);
  const size_t start = caret > kWidth - 20 ? caret - (kWidth - 20) : 0;
  std::string shown, below;
  for (size_t i = start; i < std::min(place.text.size(), start + kWidth); ++i) {
    const char c = place.text[i];
    shown += (c >= ' ' && c < 127) || c == '\t' ? c : c == '\r' ? ' ' : '?';
    if (i < caret) below += c == '\t' ? '\t' : ' ';
  }
  while (below.size() < caret - start) below += ' ';
  return concat(shown, "\n", below, "^\n");
}

}  // namespace

void Diagnostics::error(int position, std::string_view what, std::string_view hint) {
  ++count_;
  if (count_ > kMaxDiagnostics) return;
  std::string message;
  if (source_->text.empty()) {
    message =
        concat(source_->file, context_.empty() ? "" : ", ", context_, ": error: ", what, "\n");
  } else {
    Place place = place_of(source_->text, position);
    message = concat(source_->file, ":", place.line, ":", place.column, ": error: ", what, "\n",
                     show_line(place));
  }
  if (!hint.empty()) message += concat("hint: ", hint, "\n");
  for (const auto& [at, text] : messages_) {
    if (text == message) return;  // the same mistake met twice
  }
  messages_.emplace_back(position, std::move(message));
}

bool Diagnostics::full() const { return count_ >= kMaxDiagnostics; }

absl::Status Diagnostics::status() const {
  if (ok()) return absl::OkStatus();
  std::vector<std::pair<int, std::string>> sorted = messages_;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::string all;
  for (const auto& [position, text] : sorted) all += text;
  if (count_ > kMaxDiagnostics) all += concat("and ", count_ - kMaxDiagnostics, " more errors\n");
  return absl::InvalidArgumentError(all);
}

NodePtr make_node(Node node) {
  constexpr int64_t kManyNodes = int64_t{1} << 40;
  auto count = [&](const NodePtr& child) {
    if (!child) return;
    node.depth = std::max(node.depth, child->depth + 1);
    node.size = std::min(kManyNodes, node.size + child->size);
  };
  for (const NodePtr& arg : node.args) count(arg);
  for (const AxisSyntax& axis : node.axes) count(axis.extent);
  return std::make_shared<const Node>(std::move(node));
}

ExprOp function_named(std::string_view name, size_t* arity) {
  for (const ExprOpRow& row : kExprOpRows) {
    if (!row.called || name != row.name) continue;
    *arity = static_cast<size_t>(row.operands);
    return row.op;
  }
  return ExprOp::kConst;
}

const std::vector<std::string>& function_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all = {"where", "pad", "cast", "clamp", "sum", "prod"};
    for (const ExprOpRow& row : kExprOpRows) {
      if (row.called) all.emplace_back(row.name);
    }
    return all;
  }();
  return names;
}

bool reduction_named(std::string_view name, Reduce* reduce) {
  for (Reduce kind : {Reduce::kSum, Reduce::kProd, Reduce::kMax, Reduce::kMin}) {
    if (name != reduction_name(kind)) continue;
    *reduce = kind;
    return true;
  }
  return false;
}

std::string_view reduction_name(Reduce reduce) {
  constexpr std::string_view kNames[] = {"", "sum", "prod", "max", "min"};
  return kNames[static_cast<int>(reduce)];
}

bool is_reserved(std::string_view name) {
  for (const char* word : {"op", "in", "out", "let", "const", "true", "false", "inf"}) {
    if (name == word) return true;
  }
  Type type;
  return parse_type(name, &type);
}

bool is_identifier(std::string_view name) {
  auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  if (name.empty() || !letter(name[0])) return false;
  return std::all_of(name.begin(), name.end(),
                     [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

bool parse_parameter_value(std::string_view text, ParameterValue* value) {
  *value = ParameterValue();
  if (parse_type(text, &value->type)) {
    value->kind = ParameterKind::kType;
    return true;
  }
  if (text == "true" || text == "false") {
    value->kind = ParameterKind::kBool;
    value->integer = text == "true";
    return true;
  }
  if (text == "inf" || text == "-inf") {
    value->kind = ParameterKind::kFloat;
    value->number = text[0] == '-' ? -std::numeric_limits<double>::infinity()
                                   : std::numeric_limits<double>::infinity();
    return true;
  }
  if (text.empty() || text.find_first_not_of("0123456789+-.eE") != std::string_view::npos) {
    return false;
  }
  const char* end = text.data() + text.size();
  auto integer = std::from_chars(text.data(), end, value->integer);
  if (integer.ec == std::errc() && integer.ptr == end) {
    value->number = static_cast<double>(value->integer);
    return true;
  }
  value->kind = ParameterKind::kFloat;
  auto number = std::from_chars(text.data(), end, value->number);
  return number.ec == std::errc() && number.ptr == end;
}

}  // namespace lw
