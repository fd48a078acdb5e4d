// Traces as text, and replay. The text is stored: one step a line,
//   line  = [step] ["#" comment]
//   step  = kind ["@" version] "(" [name {"," name}] [";" number {"," number}] ")"
//   name  = characters other than blanks and ( ) , ; @ #
// Whatever the parser accepts prints back equal up to spaces, comments and blank lines; whether it
// applies is for replay to say.
#include <charconv>

#include "schedules/steps.h"
#include "schedules/targets/family.h"
#include "schedules/targets/target.h"
#include "src/base/check.h"
#include "src/base/message.h"

namespace lw {
namespace {

// Far above what a schedule has; a damaged file must not cost memory.
constexpr size_t kMaxSteps = 10000;
constexpr size_t kMaxItems = 64;
constexpr size_t kMaxName = 256;

class Parser {
 public:
  // With `unknown` steps that there are not are passed over; it gets the first.
  explicit Parser(std::string_view text, std::string* unknown = nullptr)
      : text_(text), first_unknown_(unknown) {}

  absl::StatusOr<Trace> parse() {
    Trace trace;
    while (true) {
      skip_blanks(/*lines=*/true);
      if (at_ == text_.size()) return trace;
      if (trace.size() == kMaxSteps) return error(concat("more than ", kMaxSteps, " steps"));
      ASSIGN_OR_RETURN(Step step, parse_step());
      trace.push_back(std::move(step));
      skip_blanks(/*lines=*/false);
      if (at_ < text_.size() && text_[at_] != '\n') return error("expected the end of the line");
    }
  }

 private:
  absl::Status error(std::string_view what) const { return error_at(at_, what); }
  absl::Status error_at(size_t at, std::string_view what) const {
    size_t line = 1, begin = 0;
    for (size_t n = 0; n < at; ++n) {
      if (text_[n] == '\n') ++line, begin = n + 1;
    }
    return absl::InvalidArgumentError(concat("trace:", line, ":", at - begin + 1, ": ", what));
  }

  void skip_blanks(bool lines) {
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
        --at_;
      } else if (c != ' ' && c != '\t' && c != '\r' && !(lines && c == '\n')) {
        return;
      }
    }
  }

  bool take(char c) {
    skip_blanks(/*lines=*/false);
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  static bool is_name(char c) {
    constexpr std::string_view kOthers = "(),;@#";
    return c > ' ' && c < 127 && kOthers.find(c) == std::string_view::npos;
  }

  std::string_view take_name() {
    skip_blanks(/*lines=*/false);
    const size_t begin = at_;
    while (at_ < text_.size() && is_name(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  absl::StatusOr<int64_t> take_number() {
    const std::string_view word = take_name();
    int64_t value = 0;
    const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (word.empty() || code != std::errc() || end != word.data() + word.size()) {
      return error_at(at_ - word.size(),
                      word.empty() ? "expected a number" : concat("'", word, "' is no integer"));
    }
    return value;
  }

  absl::StatusOr<Step> parse_step() {
    Step step;
    const size_t begin = at_;
    const std::string_view kind = take_name();
    if (kind.empty()) return error("expected a step");
    step.kind = find_step(kind);
    if (step.kind == nullptr && first_unknown_ == nullptr) return unknown(begin, kind);
    int64_t version = 1;
    if (take('@')) {
      ASSIGN_OR_RETURN(version, take_number());
    }
    const bool is_known = step.kind != nullptr && version == step.kind->version;
    if (!is_known && first_unknown_ == nullptr) {
      return error_at(begin, concat("step ", kind, " has version ", version,
                                    ", this program knows version ", step.kind->version));
    }
    if (!is_known && first_unknown_->empty()) {
      *first_unknown_ = version == 1 ? std::string(kind) : concat(kind, "@", version);
    }
    if (!take('(')) return error("expected '('");
    RETURN_IF_ERROR(parse_names(step));
    if (take(';')) {
      do {
        if (step.numbers.size() == kMaxItems) return error("too many numbers");
        ASSIGN_OR_RETURN(const int64_t number, take_number());
        step.numbers.push_back(number);
      } while (take(','));
    }
    if (!take(')')) return error("expected ',', ';' or ')'");
    return step;
  }

  absl::Status parse_names(Step& step) {
    skip_blanks(/*lines=*/false);
    if (at_ < text_.size() && (text_[at_] == ';' || text_[at_] == ')')) return absl::OkStatus();
    do {
      const std::string_view name = take_name();
      if (name.empty()) return error("expected a name");
      if (name.size() > kMaxName || step.names.size() == kMaxItems)
        return error("name too long or too many");
      step.names.emplace_back(name);
    } while (take(','));
    return absl::OkStatus();
  }

  absl::Status unknown(size_t begin, std::string_view kind) const {
    std::vector<std::string> names;
    for (const StepKind* known : lw_step_table()) names.push_back(known->name);
    const std::string nearest = nearest_name(kind, names);
    return error_at(begin,
                    concat("no step '", kind, "'",
                           nearest.empty() ? "" : concat("; did you mean '", nearest, "'?")));
  }

  std::string_view text_;
  std::string* first_unknown_;
  size_t at_ = 0;
};

}  // namespace

const StepKind* find_step(std::string_view name) {
  for (const StepKind* kind : lw_step_table()) {
    if (kind->name == name) return kind;
  }
  return nullptr;
}

std::string to_text(const Step& step) {
  std::string text = step.kind->name;
  if (step.kind->version > 1) text += concat("@", step.kind->version);
  text += "(";
  for (size_t n = 0; n < step.names.size(); ++n) text += concat(n ? ", " : "", step.names[n]);
  for (size_t n = 0; n < step.numbers.size(); ++n) text += concat(n ? ", " : "; ", step.numbers[n]);
  return text + ")";
}

std::string to_text(const Trace& trace) {
  std::string text;
  for (const Step& step : trace) text += concat(to_text(step), "\n");
  return text;
}

absl::StatusOr<Trace> parse_trace(std::string_view text) { return Parser(text).parse(); }

std::string unknown_step(std::string_view text) {
  std::string unknown;
  return Parser(text, &unknown).parse().ok() ? unknown : "";
}

absl::Status apply(Nest& nest, const Step& step) {
  CHECK(step.kind != nullptr);
  RETURN_IF_ERROR(nest.stop.status("scheduling"));
  if (!serves(*nest.target, step.kind->family)) {
    const TargetFamily* family = nest.target->part.family();
    const std::string_view named = step.kind->family;
    const std::string machines = named == kRegisterMachines ? "that compute in registers"
                                 : named == kProcessors     ? "that are processors"
                                                            : concat("of the family ", named);
    return infeasible(concat(step.kind->name, " is of machines ", machines, ", not ",
                             family == nullptr ? "unknown" : family->name));
  }
  RETURN_IF_ERROR(step.kind->apply(nest, step));
#ifndef NDEBUG
  const absl::Status structure = verify(nest);
  RETURN_IF_ERROR(nest.stop.status("scheduling"));
  if (!structure.ok())
    std::fprintf(stderr, "%s: %s\n", to_text(step).c_str(), structure.ToString().c_str());
  CHECK(structure.ok());
#endif
  return absl::OkStatus();
}

absl::StatusOr<Nest> replay(const Nest& start, const Trace& trace) {
  Nest nest = start;
  for (const Step& step : trace) {
    const absl::Status status = apply(nest, step);
    if (status.ok()) continue;
    return absl::Status(status.code(),
                        concat(std::string(status.message()), " in ", to_text(step)));
  }
  return nest;
}

}  // namespace lw
