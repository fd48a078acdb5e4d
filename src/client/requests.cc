#include "src/client/requests.h"

#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "schedules/targets/identity.h"
#include "schedules/targets/target.h"
#include "src/api/kernel_facts.h"
#include "src/api/task.h"
#include "src/base/check.h"
#include "src/base/files.h"
#include "src/base/message.h"
#include "tuner_db/key_terms.h"

namespace lw {
namespace {

using Json = nlohmann::ordered_json;

absl::Status take_option(const std::string& option, const std::string& value, SuiteCase* one) {
  if (option == "--const") {
    one->const_names = const_names_of(value);
  } else if (option == "--allow") {
    const std::vector<std::string> names = absl::StrSplit(value, ',', absl::SkipEmpty());
    if (const std::string what = unknown_allowance(names); !what.empty()) {
      return absl::InvalidArgumentError(concat("--allow ", what, ": winograd or bf16"));
    }
    one->allow.insert(one->allow.end(), names.begin(), names.end());
  } else if (option == "--entry") {
    one->entry = value;
  } else if (option == "--target") {
    one->target = value;
  } else if (option == "--threads") {
    if (!absl::SimpleAtoi(value, &one->threads) || one->threads < 1 || one->threads > 4096) {
      return absl::InvalidArgumentError(concat("--threads ", value, ": a number from 1 to 4096"));
    }
  } else {
    return absl::InvalidArgumentError(
        concat("'", option, "': --const, --allow, --target, --threads and --entry are what a request "
               "has"));
  }
  return absl::OkStatus();
}

absl::StatusOr<SuiteCase> parse_line(const std::string& line) {
  const std::vector<std::string> words =
      absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
  SuiteCase one;
  for (size_t i = 0; i < words.size(); ++i) {
    if (!words[i].starts_with("--")) {
      one.words.push_back(words[i]);
      continue;
    }
    const size_t equals = words[i].find('=');
    if (equals != std::string::npos) {
      RETURN_IF_ERROR(take_option(words[i].substr(0, equals), words[i].substr(equals + 1), &one));
    } else if (i + 1 < words.size()) {
      RETURN_IF_ERROR(take_option(words[i], words[i + 1], &one));
      ++i;
    } else {
      return absl::InvalidArgumentError(concat(words[i], " lacks its value"));
    }
  }
  one.name = absl::StrJoin(one.words, " ");
  if (one.words.empty()) return absl::InvalidArgumentError("it names no workload");
  return one;
}

// Cases of a suite have names of their own.
std::string own_name(const std::string& wanted, std::set<std::string>* names) {
  std::string name = wanted;
  for (int n = 2; !names->insert(name).second; ++n) name = concat(wanted, ", ", n);
  return name;
}

// The target as load_target() finds it, anywhere: its name, or all of it.
std::string name_of(const Task& task) {
  const auto named = load_target(task.target()->name);
  const bool is_it = named.ok() && target_id(**named) == task.key().target;
  return is_it ? task.target()->name : to_text(*task.target());
}

}  // namespace

absl::StatusOr<std::vector<SuiteCase>> parse_requests(std::string_view text,
                                                      const std::string& name) {
  std::vector<SuiteCase> cases;
  int number = 0;
  const std::vector<std::string> lines = absl::StrSplit(std::string(text), '\n');
  for (const std::string& whole : lines) {
    ++number;
    const std::string line(absl::StripAsciiWhitespace(whole.substr(0, whole.find('#'))));
    if (line.empty()) continue;
    absl::StatusOr<SuiteCase> one = parse_line(line);
    if (!one.ok()) {
      return absl::InvalidArgumentError(
          concat(name, ":", number, ": ", std::string(one.status().message())));
    }
    cases.push_back(*std::move(one));
  }
  if (cases.empty()) return absl::InvalidArgumentError(concat(name, ": names no workload"));
  return cases;
}

absl::StatusOr<std::vector<SuiteCase>> read_requests(const std::string& path) {
  absl::StatusOr<std::string> text = read_file(path);
  if (!text.ok()) return absl::InvalidArgumentError(text.status().message());
  const size_t first = text->find_first_not_of(" \t\r\n");
  if (first != std::string::npos && (*text)[first] == '{') return load_suite(path, {});
  return parse_requests(*text, path);
}

std::string request_file(const std::vector<Task>& tasks) {
  Json json;
  json["command"] = "loopwright tune --suite FILE";
  json["workloads"] = Json::array();
  std::set<std::string> names;
  for (const Task& task : tasks) {
    const std::string words = words_without_folder(task.workload().source_words);
    Json one = {{"name", own_name(concat(words, " for ", task.target()->name), &names)},
                {"words", words},
                {"program", print(*task.program())}};
    if (allows_winograd(task.key().objective)) one["allow"] = {kWinograd};
    one["target"] = name_of(task);
    one["threads"] = task.threads();
    json["workloads"].push_back(std::move(one));
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace lw
