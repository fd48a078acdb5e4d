#include "src/build/simt/ptx/assembler/ptxas_report.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "src/base/message.h"

namespace lw {
namespace {

using EntryFacts = Assembled::Facts;

constexpr size_t kMostMessages = 5;        // quoted: later ones follow from those before

std::vector<std::string> report_lines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::string bare_text(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  if (begin == text.npos) return "";
  return std::string(text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1));
}

// The number behind `before`, of the first place where there is one.
std::optional<int64_t> number_after(std::string_view text, std::string_view before) {
  for (size_t at = text.find(before); at != text.npos; at = text.find(before, at + 1)) {
    int64_t number = 0;
    const char* begin = text.data() + at + before.size();
    if (std::from_chars(begin, text.data() + text.size(), number).ec == std::errc()) return number;
  }
  return std::nullopt;
}

// The number right before `after`: "428" of "..., 428 bytes spill stores".
int64_t number_before(std::string_view text, std::string_view after) {
  const size_t end = text.find(after);
  if (end == text.npos) return 0;
  size_t begin = end;
  while (begin > 0 && text[begin - 1] >= '0' && text[begin - 1] <= '9') --begin;
  int64_t number = 0;
  std::from_chars(text.data() + begin, text.data() + end, number);
  return number;
}

// What stands between the first `before` and the next `after`; "": nothing does.
std::string between(std::string_view text, std::string_view before, std::string_view after) {
  const size_t at = text.find(before);
  if (at == text.npos) return "";
  text.remove_prefix(at + before.size());
  const size_t end = text.find(after);
  return end == text.npos ? "" : std::string(text.substr(0, end));
}

// "ptxas kernel.ptx, line 19; error   : Unknown symbol 'x'": the line's number, then what it says.
std::string quoted_message(const std::string& said, const std::vector<std::string>& ptx) {
  std::optional<int64_t> line = number_after(said, ", line ");
  if (!line.has_value()) line = number_after(said, "around line ");
  if (!line.has_value()) line = number_after(said, "at line ");
  const size_t colon = said.find(" : ");   // behind "error  ", "info   ", "fatal  "
  const std::string text = colon == said.npos ? bare_text(said) : bare_text(said.substr(colon + 3));
  if (!line.has_value() || *line < 1 || *line > static_cast<int64_t>(ptx.size())) return text;
  const std::string& quoted = ptx[static_cast<size_t>(*line - 1)];
  return concat("line ", *line, ": ", text, "\n    ", bare_text(quoted));
}

// Which of what ptxas remarks are the candidate's fault, who asks for too many registers.
bool is_serialized(const std::string& line) {
  return absl::StrContains(line, "C7512") ||
         absl::StrContains(line, "serialized due to insufficient register resources");
}
bool is_short_of_registers(const std::string& line) {
  return absl::StrContains(line, "C7602") || absl::StrContains(line, "Insufficient registers");
}

bool is_printers_fault(const std::string& line) {
  for (const char* what : {"C7508", "C7517", "C7519", "Potential Performance Loss"}) {
    if (absl::StrContains(line, what)) return true;
  }
  return false;
}

// Names behind ".entry", in their order.
std::vector<EntryFacts> entries_of(const std::vector<std::string>& ptx) {
  std::vector<EntryFacts> all;
  for (const std::string& line : ptx) {
    const std::string code = line.substr(0, line.find("//"));
    const size_t at = code.find(".entry");
    if (at == code.npos) continue;
    const std::string name = bare_text(code.substr(at + std::string_view(".entry").size()));
    all.emplace_back().entry = bare_text(name.substr(0, name.find('(')));
  }
  return all;
}

EntryFacts* entry_facts(std::vector<EntryFacts>& all, std::string_view entry) {
  for (EntryFacts& facts : all) {
    if (facts.entry == entry) return &facts;
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<std::vector<EntryFacts>> assembled_facts(std::string_view report,
                                                        std::string_view ptx) {
  const std::vector<std::string> text = report_lines(ptx);
  std::vector<EntryFacts> all = entries_of(text);
  std::vector<std::string> faults;
  EntryFacts* compiled = nullptr;          // whose registers come next
  EntryFacts* described = nullptr;         // whose stack frame does
  for (const std::string& line : report_lines(report)) {
    if (is_serialized(line) || is_short_of_registers(line)) {
      EntryFacts* one = entry_facts(all, between(line, "function '", "'"));
      // Where it names none of them it may be any.
      for (EntryFacts& facts : all) {
        if (one != nullptr && &facts != one) continue;
        facts.serialized |= is_serialized(line);
        facts.short_of_registers |= is_short_of_registers(line);
      }
    } else if (is_printers_fault(line)) {
      faults.push_back(quoted_message(line, text));
    } else if (absl::StrContains(line, "Compiling entry function '")) {
      compiled = entry_facts(all, between(line, "Compiling entry function '", "'"));
    } else if (absl::StrContains(line, "Function properties for ")) {
      described = entry_facts(all, bare_text(line.substr(line.find(" for ") + 5)));
    } else if (described != nullptr && absl::StrContains(line, " bytes stack frame")) {
      described->stack_bytes = number_before(line, " bytes stack frame");
      described->spill_store_bytes = number_before(line, " bytes spill stores");
      described->spill_load_bytes = number_before(line, " bytes spill loads");
    } else if (compiled != nullptr && absl::StrContains(line, " registers")) {
      compiled->registers = number_before(line, " registers");
      compiled->barriers = number_before(line, " barriers");
      compiled->shared_bytes = number_before(line, " bytes smem");
    }
  }
  if (!faults.empty()) {
    if (faults.size() > kMostMessages) faults.resize(kMostMessages);
    return absl::InternalError(
        concat("ptxas makes slow code of what we print, a bug in Loopwright:\n",
               absl::StrJoin(faults, "\n")));
  }
  for (const EntryFacts& facts : all) {
    if (facts.registers > 0) continue;
    return absl::InternalError(concat("ptxas says nothing of the entry '", facts.entry,
                                      "', but: ", bare_text(report.substr(0, 500))));
  }
  return all;
}

absl::Status refusal(std::string_view report, std::string_view ptx) {
  const std::vector<std::string> text = report_lines(ptx);
  std::vector<std::string> messages;
  for (const std::string& line : report_lines(report)) {
    if (is_short_of_registers(line)) {
      return absl::InvalidArgumentError(concat("ptxas: ", quoted_message(line, text)));
    }
    if (absl::StrContains(line, "is not defined for option 'gpu-name'")) {
      return absl::UnavailableError(
          concat("this ptxas is too old or too new for the processor: ",
                 quoted_message(line, text), "; LOOPWRIGHT_PTXAS can name another"));
    }
    const bool is_message = absl::StrContains(line, "error ") || absl::StrContains(line, "fatal ");
    if (!is_message || absl::StrContains(line, "assembly aborted due to errors")) continue;
    messages.push_back(quoted_message(line, text));
    if (messages.size() == kMostMessages) break;
  }
  if (messages.empty()) messages.push_back(bare_text(report.substr(0, 500)));
  return absl::InternalError(concat("ptxas refuses what we print, a bug in Loopwright:\n",
                                    absl::StrJoin(messages, "\n")));
}

}  // namespace lw
