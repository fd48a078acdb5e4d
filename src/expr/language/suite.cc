// Suites of benchmark cases, in the format of bench/workloads/ansor.json, as library operators; and
// tuning requests, whose cases hold words.
#include "src/expr/language/suite.h"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "src/base/check.h"
#include "src/base/files.h"
#include "src/base/message.h"
#include "src/expr/language/json_text.h"

namespace lw {
namespace {

using nlohmann::json;

// A suite's operator: ours, and our parameters, each with the case's name for its value.
struct SuiteOp {
  const char* op;
  std::vector<std::pair<const char*, const char*>> parameters;
};

const std::map<std::string, SuiteOp>& suite_ops() {
  static const std::map<std::string, SuiteOp> ops = [] {
    const std::vector<std::pair<const char*, const char*>> conv2d = {
        {"N", "batch"}, {"H", "h"},      {"W", "w"},           {"CI", "ci"},  {"CO", "co"},
        {"R", "kernel"}, {"S", "kernel"}, {"stride", "stride"}, {"pad", "pad"}};
    auto with = [&](std::vector<std::pair<const char*, const char*>> more) {
      more.insert(more.begin(), conv2d.begin(), conv2d.end());
      return more;
    };
    return std::map<std::string, SuiteOp>{
        {"C1D",
         {"conv1d",
          {{"N", "batch"},
           {"L", "length"},
           {"CI", "ci"},
           {"CO", "co"},
           {"R", "kernel"},
           {"stride", "stride"},
           {"pad", "pad"}}}},
        {"C2D", {"conv2d", conv2d}},
        {"C3D",
         {"conv3d",
          {{"N", "batch"},
           {"D", "d"},
           {"H", "h"},
           {"W", "w"},
           {"CI", "ci"},
           {"CO", "co"},
           {"R", "kernel"},
           {"stride", "stride"},
           {"pad", "pad"}}}},
        {"GRP", {"conv2d_grouped", with({{"groups", "groups"}})}},
        {"DIL", {"conv2d_dilated", with({{"dilation", "dilation"}})}},
        {"CBR", {"conv2d_bn_relu", conv2d}},
        {"DEP",
         {"conv2d_depthwise",
          {{"N", "batch"},
           {"H", "h"},
           {"W", "w"},
           {"C", "c"},
           {"R", "kernel"},
           {"S", "kernel"},
           {"stride", "stride"},
           {"pad", "pad"}}}},
        {"T2D",
         {"conv2d_transpose",
          {{"N", "batch"},
           {"H", "h"},
           {"W", "w"},
           {"CI", "ci"},
           {"CO", "co"},
           {"R", "kernel"},
           {"stride", "stride"},
           {"pad", "pad"}}}},
        {"CAP", {"conv2d_capsule", with({{"Q", "capsule"}})}},
        {"GMM", {"batch_matmul", {{"B", "batch"}, {"M", "n"}, {"N", "m"}, {"K", "k"}}}},
        {"NRM", {"norm", {{"B", "batch"}, {"M", "m"}, {"N", "n"}}}},
        {"TBS",
         {"transpose_batch_matmul_softmax",
          {{"B", "batch"}, {"S", "seq"}, {"H", "heads"}, {"D", "dim"}}}}};
  }();
  return ops;
}

// A text of an object; "" where it has none.
std::string text_of(const json& entry, const char* field) {
  std::string text;
  take_text(entry, field, &text);
  return text;
}

// A list of texts, or one text with them between commas. False: it is neither.
bool read_names(const json& value, std::vector<std::string>* names) {
  if (value.is_string()) {
    *names = absl::StrSplit(value.get<std::string>(), ',', absl::SkipEmpty());
    return true;
  }
  if (!value.is_array()) return false;
  for (const json& name : value) {
    if (!name.is_string()) return false;
    names->push_back(name.get<std::string>());
  }
  return true;
}

// A case of a tuning request: its words, in one text or as a list, whose first may be a program's text;
// or the program, which then decides.
absl::StatusOr<SuiteCase> read_request(const json& entry) {
  SuiteCase result;
  const std::string program = text_of(entry, "program");
  if (entry.contains("program")) {
    if (!is_program_text(program)) {
      return absl::InvalidArgumentError("its program is no text of several lines");
    }
    result.words.push_back(program);
    result.label = text_of(entry, "words");
  } else if (entry["words"].is_string()) {
    std::istringstream words(entry["words"].get<std::string>());
    for (std::string word; words >> word;) result.words.push_back(word);
  } else if (entry["words"].is_array()) {
    for (const json& word : entry["words"]) {
      if (!word.is_string()) return absl::InvalidArgumentError("one of its words is no text");
      result.words.push_back(word.get<std::string>());
    }
  }
  if (result.words.empty()) return absl::InvalidArgumentError("its words are no text, or none");
  if (entry.contains("const")) {
    result.const_names.emplace();
    if (!read_names(entry["const"], &*result.const_names)) {
      return absl::InvalidArgumentError("its const is no list of inputs' names");
    }
    if (*result.const_names == std::vector<std::string>{"none"}) result.const_names->clear();
  }
  if (entry.contains("allow")) {
    const bool read = read_names(entry["allow"], &result.allow);
    if (const std::string what = unknown_allowance(result.allow); !what.empty()) {
      return absl::InvalidArgumentError(
          concat("it allows '", what, "': winograd and bf16 are what a workload may allow"));
    }
    if (!read) return absl::InvalidArgumentError("its allow is no list of names");
  }
  result.entry = text_of(entry, "entry");
  result.target = text_of(entry, "target");
  if (entry.contains("threads")) {
    if (!entry["threads"].is_number_integer() || entry["threads"] < 0 || entry["threads"] > 4096) {
      return absl::InvalidArgumentError("its threads are no number from 0 to 4096");
    }
    result.threads = entry["threads"];
  }
  return result;
}

absl::StatusOr<SuiteCase> read_case(const json& entry) {
  auto refuse = [](const std::string& why) { return absl::InvalidArgumentError(why); };
  if (entry.is_object() && (entry.contains("words") || entry.contains("program"))) {
    return read_request(entry);
  }
  if (!entry.is_object() || !entry.contains("name") || !entry["name"].is_string() ||
      !entry.contains("op") || !entry["op"].is_string() || !entry.contains("params") ||
      !entry["params"].is_object()) {
    return refuse("a workload needs a name, an op and params");
  }
  SuiteCase result;
  const std::string op = entry["op"];
  const json& params = entry["params"];
  if (entry.contains("dtype") && entry["dtype"] != "f32") return refuse("it is not f32");
  if (entry.contains("flop") && entry["flop"].is_number()) result.flop_counted = entry["flop"];
  auto known = suite_ops().find(op);
  if (known == suite_ops().end()) {
    std::vector<std::string> names;
    for (const auto& [name, mapped] : suite_ops()) names.push_back(name);
    const std::string near = nearest_name(op, names);
    return refuse(concat("unknown op '", op, "'",
                         near.empty() ? "" : concat("; did you mean '", near, "'?")));
  }
  result.words.push_back(known->second.op);
  for (const auto& [ours, theirs] : known->second.parameters) {
    if (!params.contains(theirs)) continue;  // our default is theirs
    if (!params[theirs].is_number_integer()) {
      return refuse(concat("its ", theirs, " is no integer"));
    }
    result.words.push_back(concat(ours, "=", params[theirs].get<int64_t>()));
  }
  return result;
}

// One case of the file: whether it can be used, and why not.
struct Entry {
  SuiteCase one;
  std::string why;                         // "" where it can
};

std::vector<Entry> read_entries(const json& list) {
  std::vector<Entry> entries;
  std::set<std::string> names;
  for (const json& item : list) {
    Entry entry;
    absl::StatusOr<SuiteCase> read = read_case(item);
    if (read.ok()) entry.one = *std::move(read);
    else entry.why = std::string(read.status().message());
    entry.one.name = text_of(item, "name");
    // An earlier case keeps the name, whether or not it can be used. (Equal words are no mistake.)
    if (!entry.one.name.empty() && !names.insert(entry.one.name).second)
      entry.why = "an earlier case has this name";
    if (entry.one.name.empty()) entry.one.name = text_of(item, "words");
    if (entry.one.name.empty()) entry.one.name = concat("workload ", entries.size() + 1);
    entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace

std::string unknown_allowance(const std::vector<std::string>& allow) {
  for (const std::string& what : allow) {
    if (what != kWinograd && what != kBf16) return what;
  }
  return "";
}

std::vector<std::string> const_names_of(const std::string& text) {
  if (text == "none") return {};
  return absl::StrSplit(text, ',', absl::SkipEmpty());
}

absl::StatusOr<SuiteCases> read_suite(const std::string& path,
                                      const std::vector<std::string>& names) {
  const absl::StatusOr<std::string> text = read_file(path);
  if (!text.ok()) return absl::InvalidArgumentError(concat("cannot read the file '", path, "'"));
  return parse_suite(*text, path, names);
}

absl::StatusOr<SuiteCases> parse_suite(std::string_view text, const std::string& path,
                                       const std::vector<std::string>& names) {
  const json suite = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (suite.is_discarded() || !suite.is_object() || !suite.contains("workloads") ||
      !suite["workloads"].is_array()) {
    return absl::InvalidArgumentError(concat(path, ": not a suite: JSON with a list 'workloads'"));
  }
  const std::vector<Entry> entries = read_entries(suite["workloads"]);
  std::vector<std::string> all;
  for (const Entry& entry : entries) all.push_back(entry.one.name);
  std::vector<size_t> chosen;
  for (const std::string& name : names) {
    auto found = std::find(all.begin(), all.end(), name);
    if (found == all.end()) {
      const std::string near = nearest_name(name, all);
      return absl::InvalidArgumentError(
          concat(path, " has no case '", name, "'",
                 near.empty() ? "" : concat("; did you mean '", near, "'?")));
    }
    chosen.push_back(static_cast<size_t>(found - all.begin()));
  }
  for (size_t i = 0; names.empty() && i < entries.size(); ++i) chosen.push_back(i);
  SuiteCases result;
  for (size_t i : chosen) {
    if (entries[i].why.empty()) result.cases.push_back(entries[i].one);
    else result.refused.push_back({entries[i].one.name, entries[i].why});
  }
  return result;
}

absl::StatusOr<std::vector<SuiteCase>> load_suite(const std::string& path,
                                                  const std::vector<std::string>& names) {
  ASSIGN_OR_RETURN(SuiteCases suite, read_suite(path, names));
  if (suite.refused.empty()) return std::move(suite.cases);
  std::string message = path;
  for (const RefusedCase& one : suite.refused) message += concat("\n  ", one.name, ": ", one.why);
  return absl::InvalidArgumentError(message);
}

}  // namespace lw
