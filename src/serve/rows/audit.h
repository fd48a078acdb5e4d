// The audit log: who changed what, and who was refused what.
//
// What a call changes and its line are one transaction: neither is there without the other. A call
// that was refused changed nothing, and whoever may call at all may be refused a thousand times a
// second; so those of one actor, method and outcome within a minute are one line with a count.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "src/serve/messages/names.h"
#include "tuner_db/sql/database.h"

namespace lw {

struct AuditLine {
  int64_t time_ms = 0;
  std::string actor, peer;                 // "client/ci", "ipv4:192.0.2.1:40000"
  std::string method;                      // "/loopwright.v1.TuningService/CreateStudy"
  std::string subject;                     // what it was about
  std::string outcome;                     // "OK", "PERMISSION_DENIED ROLE_DENIED"
};

// `id`: of the row, where it is wanted.
absl::Status write_audit(WriteTransaction& tx, const AuditLine& line, int64_t* id = nullptr);

// The refused calls of the minute, by what they have in common. Thread-safe; time is an argument.
class Refusals {
 public:
  // A line that is in the database, or on its way there, and how many more it stands for now.
  struct Line {
    std::shared_ptr<int64_t> id;           // set by who writes it, 0 until then
    int64_t more = 0;
  };
  // Whether this is the first of its kind within its minute: then it is a line to be written, and
  // `*id` is where its row's id goes. Otherwise it is counted.
  bool note(const AuditLine& line, std::shared_ptr<int64_t>* id);
  // Those whose minute is over at `now_ms` and that stand for more than themselves; forgets them.
  std::vector<Line> take(int64_t now_ms);

 private:
  struct Kind {
    int64_t begun_ms = 0;
    Line line;
  };
  std::mutex mutex_;
  std::map<std::tuple<std::string, std::string, std::string>, Kind> kinds_;
  std::vector<Line> over_;
};

// What a call is about: the name that its answer gives what it made, else the name in the request.
template <class Request, class Response>
std::string subject_of(const Request& request, const Response& response) {
  constexpr size_t kLongest = 1000;
  std::string subject;
  if constexpr (requires { std::string(response.digest()); }) {
    subject = response.digest();
  } else if constexpr (requires { std::string(response.file()); }) {
    subject = response.file();
  } else if constexpr (requires { std::string(request.digest()); }) {
    subject = request.digest();
  } else if constexpr (requires { std::string(request.name()); }) {
    subject = request.name();
  } else if constexpr (requires { request.names(); }) {
    for (const std::string& name : request.names()) subject += (subject.empty() ? "" : " ") + name;
  } else if constexpr (requires { request.records(0).key().workload(); }) {
    subject = std::to_string(request.records_size()) + " records";
    if (request.records_size() > 0) subject += " from " + request.records(0).key().workload();
    if (response.impossible() > 0) {
      subject += ", " + std::to_string(response.impossible()) + " with impossible times";
    }
  } else if constexpr (requires { request.filter().actor(); }) {
    subject = request.filter().ShortDebugString() + " because " + request.reason();
  } else if constexpr (requires { response.metadata(); }) {
    subject = study_name(id_of(response.name()));  // of an operation
  }
  return subject.substr(0, kLongest);
}

}  // namespace lw
