#include "src/exec/heads.h"

#include <algorithm>
#include <cmath>

#include "nlohmann/json.hpp"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/base/named.h"

namespace lw::exec {
namespace {

using Json = nlohmann::ordered_json;

constexpr Named<ErrorCode> kCodes[] = {{ErrorCode::kRefused, "refused"},
                                       {ErrorCode::kWrongResult, "wrong_result"},
                                       {ErrorCode::kDeviceLimit, "device_limit"},
                                       {ErrorCode::kFailed, "failed"}};
constexpr size_t kMostSamples = 10'000, kMostCounters = 1'000, kMostArguments = 1'000;
constexpr double kMostBytes = 1e12;
constexpr const char* kCounters = "an object of at most 1000 finite numbers by words";

std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string shown(const Json& json) {
  const std::string text = text_of(json);
  return text.size() <= 60 ? text : text.substr(0, 57) + "...";
}

absl::Status refuse(std::string_view member, std::string_view allowed, const Json* found) {
  return absl::InvalidArgumentError(
      concat(member, ": ", allowed, ", ", found == nullptr ? "and is missing" : "not ",
             found == nullptr ? "" : shown(*found)));
}

bool is_word(std::string_view text) {
  return !text.empty() && text.size() <= 63 && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           c == '.' || c == '_' || c == '-';
  });
}

// The members of one object. What is read of it first goes wrong stays its status.
class Members {
 public:
  explicit Members(const Json& json, std::string prefix = "") : json_(json), prefix_(prefix) {}

  const absl::Status& status() const { return status_; }
  const Json* find(const char* name) const {
    const auto found = json_.find(name);
    return found == json_.end() || found->is_null() ? nullptr : &*found;
  }
  void fail(const char* name, std::string_view allowed) {
    if (!status_.ok()) return;
    const auto found = json_.find(name);
    status_ = refuse(prefix_ + name, allowed, found == json_.end() ? nullptr : &*found);
  }
  std::string text(const char* name) {
    const Json* const found = find(name);
    if (found != nullptr && found->is_string()) return found->get<std::string>();
    fail(name, "a text");
    return "";
  }
  int64_t whole(const char* name, double most) {
    const Json* const found = find(name);
    const double number =
        found != nullptr && found->is_number() ? found->get<double>() : std::nan("");
    if (number >= 0 && number <= most && number == std::floor(number)) {
      return static_cast<int64_t>(number);
    }
    fail(name, concat("a whole number from 0 to ", static_cast<int64_t>(most)));
    return 0;
  }
  bool flag(const char* name, bool otherwise) {
    const Json* const found = find(name);
    if (found == nullptr) return otherwise;
    if (found->is_boolean()) return found->get<bool>();
    fail(name, "true or false");
    return otherwise;
  }
  std::string word(const char* name) {
    const std::string value = text(name);
    if (!is_word(value)) fail(name, "1 to 63 of a-z A-Z 0-9 . _ -");
    return value;
  }

 private:
  const Json& json_;
  const std::string prefix_;
  absl::Status status_;
};

absl::StatusOr<Json> parse_object(std::string_view head) {
  // Nesting beyond what is read is cut off.
  const Json::parser_callback_t shallow = [](int depth, Json::parse_event_t, Json&) {
    return depth < 16;
  };
  Json json = Json::parse(head.begin(), head.end(), shallow, /*allow_exceptions=*/false);
  if (json.is_discarded() || !json.is_object()) {
    const std::string text(head.substr(0, 60));
    return absl::InvalidArgumentError(
        concat("the head is no object of JSON: ", shown(Json(text))));
  }
  return json;
}

// Numbers by name, those of objects within by "OUTER.INNER".
void read_counters(const Json& json, const std::string& prefix, Members& members,
                   std::vector<std::pair<std::string, double>>* counters) {
  for (const auto& [name, value] : json.items()) {
    const std::string path = prefix + name;
    if (value.is_object()) {
      read_counters(value, path + ".", members, counters);
    } else if (is_word(path) && value.is_number() && std::isfinite(value.get<double>()) &&
               counters->size() < kMostCounters) {
      counters->emplace_back(path, value.get<double>());
    } else {
      members.fail("counters", kCounters);
    }
  }
}

void read_samples(Members& members, Result* result) {
  const char* const name = members.find("ns") != nullptr ? "ns" : "cycles";
  constexpr const char* kAllowed = "1 to 10000 positive numbers";
  result->in_cycles = std::string_view(name) == "cycles";
  const Json* const found = members.find(name);
  if (found == nullptr) return;
  const Json list = found->is_array() ? *found : Json::array({*found});
  if (list.empty() || list.size() > kMostSamples) return members.fail(name, kAllowed);
  for (const Json& one : list) {
    const double value = one.is_number() ? one.get<double>() : std::nan("");
    if (!(value > 0) || !std::isfinite(value)) return members.fail(name, kAllowed);
    result->samples.push_back(value);
  }
}

absl::StatusOr<Hello> read_hello(Members& members) {
  Hello hello;
  hello.version = members.whole("version", 1e9);
  hello.architecture = members.text("architecture");
  const Json* const target = members.find("target");
  if (target == nullptr || !target->is_object()) members.fail("target", "an object");
  else hello.target = text_of(*target);
  RETURN_IF_ERROR(members.status());
  return hello;
}

absl::StatusOr<Job> read_job(Members& members) {
  Job job;
  const Json none = Json::object();
  const Json* const program = members.find("program");
  if (program == nullptr || !program->is_object()) members.fail("program", "an object");
  Members of_program(program != nullptr && program->is_object() ? *program : none, "program.");
  job.format = of_program.word("format");
  job.program_bytes = of_program.whole("bytes", kMostBytes);
  const Json* const want = members.find("want");
  if (want == nullptr || !want->is_array()) members.fail("want", "a list of time, outputs");
  else {
    for (const Json& one : *want) {
      if (one == "time") job.time = true;
      else if (one == "outputs") job.outputs = true;
      else members.fail("want", "a list of time, outputs");
    }
  }
  const Json* const arguments = members.find("arguments");
  if (arguments == nullptr || !arguments->is_array() || arguments->size() > kMostArguments) {
    members.fail("arguments", "a list of objects");
  } else {
    for (const Json& one : *arguments) {
      Members of_one(one.is_object() ? one : none, "arguments.");
      job.arguments.push_back({of_one.text("name"), of_one.whole("bytes", kMostBytes),
                               of_one.flag("written", false)});
      RETURN_IF_ERROR(of_one.status());
    }
  }
  if (members.find("workload") != nullptr) job.workload = members.text("workload");
  RETURN_IF_ERROR(members.status());
  RETURN_IF_ERROR(of_program.status());
  return job;
}

Greeting read_greeting(Members& members) {
  Greeting greeting;
  greeting.version = members.whole("version", 1e9);
  // Of another version nothing else is known.
  if (greeting.version != kVersion) return greeting;
  greeting.name = members.word("name");
  if (members.find("release") != nullptr) greeting.release = members.word("release");
  greeting.outputs = members.flag("outputs", true);
  greeting.exact = members.flag("exact", true);
  return greeting;
}

Result read_result(Members& members) {
  Result result;
  read_samples(members, &result);
  if (const Json* const counters = members.find("counters")) {
    if (counters->is_object()) read_counters(*counters, "", members, &result.counters);
    else members.fail("counters", kCounters);
  }
  return result;
}

Error read_error(Members& members) {
  Error error;
  if (!parse_in(kCodes, members.text("code"), &error.code)) {
    members.fail("code", "refused, wrong_result, device_limit or failed");
  }
  error.message = members.text("message");
  return error;
}

Json object(const char* type, int64_t id) { return {{"type", type}, {"id", id}}; }

}  // namespace

std::string print(const Request& request) {
  if (const Hello* const hello = std::get_if<Hello>(&request.what)) {
    Json json = object("hello", request.id);
    json["version"] = hello->version;
    json["architecture"] = hello->architecture;
    json["target"] = Json::parse(hello->target, nullptr, /*allow_exceptions=*/false);
    return text_of(json);
  }
  const Job& job = std::get<Job>(request.what);
  Json json = object("job", request.id);
  json["program"] = {{"format", job.format}, {"bytes", job.program_bytes}};
  json["want"] = Json::array();
  if (job.time) json["want"].push_back("time");
  if (job.outputs) json["want"].push_back("outputs");
  json["arguments"] = Json::array();
  for (const Argument& a : job.arguments) {
    json["arguments"].push_back({{"name", a.name}, {"bytes", a.bytes}, {"written", a.written}});
  }
  if (!job.workload.empty()) json["workload"] = job.workload;
  return text_of(json);
}

std::string print(const Answer& answer) {
  if (const Greeting* const greeting = std::get_if<Greeting>(&answer.what)) {
    Json json = object("hello", answer.id);
    json["version"] = greeting->version;
    json["name"] = greeting->name;
    if (!greeting->release.empty()) json["release"] = greeting->release;
    json["outputs"] = greeting->outputs;
    json["exact"] = greeting->exact;
    return text_of(json);
  }
  if (const Error* const error = std::get_if<Error>(&answer.what)) {
    Json json = object("error", answer.id);
    json["code"] = std::string(name_in(kCodes, error->code));
    json["message"] = error->message;
    return text_of(json);
  }
  const Result& result = std::get<Result>(answer.what);
  Json json = object("result", answer.id);
  if (!result.samples.empty()) json[result.in_cycles ? "cycles" : "ns"] = result.samples;
  if (!result.counters.empty()) {
    for (const auto& [name, value] : result.counters) json["counters"][name] = value;
  }
  return text_of(json);
}

absl::StatusOr<Request> parse_request(std::string_view head) {
  ASSIGN_OR_RETURN(const Json json, parse_object(head));
  Members members(json);
  Request request;
  request.id = members.whole("id", 1e15);
  const std::string type = members.text("type");
  if (type == "hello") {
    ASSIGN_OR_RETURN(request.what, read_hello(members));
  } else if (type == "job") {
    ASSIGN_OR_RETURN(request.what, read_job(members));
  } else {
    members.fail("type", "hello or job");
  }
  RETURN_IF_ERROR(members.status());
  return request;
}

absl::StatusOr<Answer> parse_answer(std::string_view head) {
  ASSIGN_OR_RETURN(const Json json, parse_object(head));
  Members members(json);
  Answer answer;
  answer.id = members.whole("id", 1e15);
  const std::string type = members.text("type");
  if (type == "hello") answer.what = read_greeting(members);
  else if (type == "result") answer.what = read_result(members);
  else if (type == "error") answer.what = read_error(members);
  else members.fail("type", "hello, result or error");
  RETURN_IF_ERROR(members.status());
  return answer;
}

}  // namespace lw::exec
