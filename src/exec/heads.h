// What the heads of frames say (frames.h, docs/exec.md): requests to an exec device, and its
// answers, one to each, in order. JSON with the members named below; others are left unread, so
// that later ones of the same version may say more. Values; pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"

namespace lw::exec {

inline constexpr int64_t kVersion = 1;     // of all this; the other end refuses any other

// ---- requests -----------------------------------------------------------------------------------

// {"type":"hello","id":1,"version":1,"architecture":"npu","target":{...}}
struct Hello {
  int64_t version = kVersion;
  std::string architecture;                // of the programs that will come
  std::string target;                      // the machine that they are for: JSON
};

// {"type":"job","id":2,"program":{"format":"npu_module","bytes":1344},"want":["time","outputs"],
//  "arguments":[{"name":"A","bytes":320,"written":false},...],"workload":"op mm ..."}
// Body: the program; where outputs are wanted, then the bytes of each argument that is not written.
struct Argument {
  std::string name;
  int64_t bytes = 0;
  bool written = false;                    // an output; others are inputs
};
struct Job {
  std::string format;
  int64_t program_bytes = 0;
  bool time = false, outputs = false;      // what is wanted
  std::vector<Argument> arguments;         // in the program's order
  std::string workload;                    // what is computed, as a canonical text; "": not said
};

struct Request {
  int64_t id = 0;                          // the answer's
  std::variant<Hello, Job> what;
};

// ---- answers ------------------------------------------------------------------------------------

// {"type":"hello","id":1,"version":1,"name":"npu_sim","release":"1.2","outputs":true,"exact":true}
struct Greeting {
  int64_t version = kVersion;
  std::string name;                        // 1 to 63 of [a-zA-Z0-9._-]
  std::string release;                     // the same, or "": another one is another device
  bool outputs = true;                     // it computes them
  bool exact = true;                       // a program's time is always the same
};

// {"type":"result","id":2,"cycles":[1234],"counters":{"macs":1024}}; "ns" in place of "cycles".
// Body: where they were wanted, the bytes of each argument that is written.
struct Result {
  bool in_cycles = true;                   // of the target's clock; else ns
  std::vector<double> samples;             // each positive and finite; empty: none was wanted
  std::vector<std::pair<std::string, double>> counters;
};

// {"type":"error","id":2,"code":"wrong_result","message":"race: ..."}
enum class ErrorCode {
  kRefused,                                // the machine does not take the program
  kWrongResult,                            // the program goes wrong: a race, an access beside
  kDeviceLimit,                            // it wants more than the machine has
  kFailed,                                 // none of its business: the device is not well
};
struct Error {
  ErrorCode code = ErrorCode::kFailed;
  std::string message;
};

struct Answer {
  int64_t id = 0;
  std::variant<Greeting, Result, Error> what;
};

std::string print(const Request& request);
std::string print(const Answer& answer);
// kInvalidArgument names the member, what it says and what it may be.
absl::StatusOr<Request> parse_request(std::string_view head);
absl::StatusOr<Answer> parse_answer(std::string_view head);

}  // namespace lw::exec
