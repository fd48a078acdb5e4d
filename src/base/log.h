// Structured logs: one event, one line, one write() on stderr. To a terminal a line is readable,
//   18:31:57.042  warning  lease_expired  job=81 agent=agents/a1 epoch=2
// to anything else it is a JSON object for machines:
//   {"time":"2026-11-21T18:31:57.042Z","level":"warning","event":"lease_expired","job":81,...}
// An event is a constant of the program in snake_case; what differs stands in fields. Nothing
// secret belongs into a field: no keys, no requests' bodies. What came over the wire may: control
// characters and invalid UTF-8 are escaped in both forms, and a value is cut after 1,000 bytes.
//
// Thread-safe. A line below the level costs a load and the caller's arguments.
#pragma once

#include <atomic>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace lw {

enum class Level { kDebug, kInfo, kWarning, kError };

// A field's value; strings are borrowed until log() returns.
struct LogValue {
  enum Kind { kText, kInteger, kReal, kBool } kind = kText;
  std::string_view text;
  int64_t integer = 0;
  double real = 0;

  LogValue(std::string_view value) : text(value) {}
  LogValue(const std::string& value) : text(value) {}
  LogValue(const char* value) : text(value) {}
  LogValue(bool value) : kind(kBool), integer(value) {}
  template <std::integral Integer>
  LogValue(Integer value) : kind(kInteger), integer(static_cast<int64_t>(value)) {}
  template <std::floating_point Real>
  LogValue(Real value) : kind(kReal), real(value) {}
};

struct LogField {
  std::string_view name;                   // a constant in snake_case
  LogValue value;
};

void log(Level level, std::string_view event, std::initializer_list<LogField> fields = {});

// kInfo until set.
void set_log_level(Level level);
bool log_enabled(Level level);
std::string_view level_name(Level level);  // "debug", "info", "warning", "error"
bool parse_level(std::string_view name, Level* level);

// Where lines go: stderr until set. `json`: whatever the descriptor is.
void set_log_output(int descriptor, bool json);

// The line for an event, with its line end; log() writes exactly this.
std::string log_line(Level level, std::string_view event, std::initializer_list<LogField> fields,
                     int64_t unix_ms, bool json, bool color = false);

}  // namespace lw
