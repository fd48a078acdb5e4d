// Suites of benchmark cases, in the format of bench/workloads/ansor.json, as library operators; and
// tuning requests, whose cases hold words.
#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include "nlohmann/json.hpp"
#include "src/base/check.h"
#include "src/expr/message.h"
#include "src/expr/text.h"

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

// A case of a tuning request: the words themselves.
absl::StatusOr<SuiteCase> read_words(const json& entry, const std::string& path) {
  SuiteCase result;
  if (entry["words"].is_string()) {
    std::istringstream words(entry["words"].get<std::string>());
    for (std::string word; words >> word;) result.words.push_back(word);
  }
  if (result.words.empty()) {
    return absl::InvalidArgumentError(concat(path, ": a workload's words are no text, or none"));
  }
  const bool named = entry.contains("name") && entry["name"].is_string();
  result.name = entry[named ? "name" : "words"].get<std::string>();
  return result;
}

absl::StatusOr<SuiteCase> read_case(const json& entry, const std::string& path) {
  auto refuse = [&](std::string_view why) {
    return absl::InvalidArgumentError(concat(path, ": a workload ", why));
  };
  if (entry.is_object() && entry.contains("words")) return read_words(entry, path);
  if (!entry.is_object() || !entry.contains("name") || !entry["name"].is_string() ||
      !entry.contains("op") || !entry["op"].is_string() || !entry.contains("params") ||
      !entry["params"].is_object()) {
    return refuse("needs a name, an op and params");
  }
  SuiteCase result;
  result.name = entry["name"];
  const std::string op = entry["op"];
  const json& params = entry["params"];
  if (entry.contains("dtype") && entry["dtype"] != "f32") {
    return refuse(concat("(", result.name, ") is not f32"));
  }
  if (entry.contains("flop") && entry["flop"].is_number()) result.flop_counted = entry["flop"];
  auto known = suite_ops().find(op);
  if (known == suite_ops().end()) {
    std::vector<std::string> names;
    for (const auto& [name, mapped] : suite_ops()) names.push_back(name);
    const std::string near = nearest_name(op, names);
    return refuse(concat("(", result.name, ") has an unknown op '", op, "'",
                         near.empty() ? "" : concat("; did you mean '", near, "'?")));
  }
  result.words.push_back(known->second.op);
  for (const auto& [ours, theirs] : known->second.parameters) {
    if (!params.contains(theirs)) continue;  // our default is theirs
    if (!params[theirs].is_number_integer()) {
      return refuse(concat("(", result.name, ") has a ", theirs, " that is no integer"));
    }
    result.words.push_back(concat(ours, "=", params[theirs].get<int64_t>()));
  }
  return result;
}

}  // namespace

absl::StatusOr<std::vector<SuiteCase>> load_suite(const std::string& path,
                                                  const std::vector<std::string>& names) {
  std::ifstream file(path);
  if (!file) return absl::InvalidArgumentError(concat("cannot read the file '", path, "'"));
  const json suite = json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (suite.is_discarded() || !suite.is_object() || !suite.contains("workloads") ||
      !suite["workloads"].is_array()) {
    return absl::InvalidArgumentError(concat(path, ": not a suite: JSON with a list 'workloads'"));
  }
  std::vector<SuiteCase> cases;
  std::vector<std::string> all;
  for (const json& entry : suite["workloads"]) {
    ASSIGN_OR_RETURN(SuiteCase one, read_case(entry, path));
    all.push_back(one.name);
    cases.push_back(std::move(one));
  }
  if (names.empty()) return cases;
  std::vector<SuiteCase> chosen;
  for (const std::string& name : names) {
    auto found = std::find(all.begin(), all.end(), name);
    if (found == all.end()) {
      const std::string near = nearest_name(name, all);
      return absl::InvalidArgumentError(
          concat(path, " has no case '", name, "'",
                 near.empty() ? "" : concat("; did you mean '", near, "'?")));
    }
    chosen.push_back(cases[static_cast<size_t>(found - all.begin())]);
  }
  return chosen;
}

}  // namespace lw
