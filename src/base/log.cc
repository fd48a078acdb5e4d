// Lines are built without locks and written by one write(); a mutex keeps the rest of a line that a
// full pipe took only in part together with its beginning. A descriptor that refuses a line (closed
// pipe, full disk) loses it: logging never stops the service.
#include "src/base/log.h"

#include "src/base/clock.h"

#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <mutex>

namespace lw {
namespace {

constexpr size_t kMaxValueBytes = 1000;
constexpr std::string_view kNames[] = {"debug", "info", "warning", "error"};
constexpr std::string_view kColors[] = {"\x1b[2m", "\x1b[32m", "\x1b[33m", "\x1b[31;1m"};
constexpr std::string_view kDim = "\x1b[2m", kPlain = "\x1b[0m";

std::atomic<int> least_level{static_cast<int>(Level::kInfo)};
std::atomic<int> output{STDERR_FILENO};
std::atomic<bool> always_json{false};
std::mutex write_mutex;

// Bytes of the UTF-8 sequence at the beginning of `text`, 0 when it is not one that may be shown:
// overlong, a surrogate, cut off, a C1 control, a line separator.
size_t sequence_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  const size_t length = first < 0x80 ? 1 : first >= 0xC2 && first < 0xE0 ? 2
                        : first >= 0xE0 && first < 0xF0 ? 3 : first >= 0xF0 && first < 0xF5 ? 4 : 0;
  if (length == 0 || length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  if (length == 1) return first >= 0x20 && first != 0x7F ? 1 : 0;
  const unsigned char second = byte(1);
  if (first == 0xC2 && second < 0xA0) return 0;
  if ((first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90)) return 0;
  if ((first == 0xED && second >= 0xA0) || (first == 0xF4 && second >= 0x90)) return 0;
  if (text.substr(0, 3) == "\u2028" || text.substr(0, 3) == "\u2029") return 0;
  return length;
}

void append_escaped(std::string* out, std::string_view text) {
  const bool cut = text.size() > kMaxValueBytes;
  if (cut) text = text.substr(0, kMaxValueBytes);
  while (!text.empty()) {
    const char c = text[0];
    size_t length = sequence_length(text);
    if (c == '"' || c == '\\') {
      out->push_back('\\');
      out->push_back(c);
    } else if (length > 0) {
      out->append(text.substr(0, length));
    } else if (c == '\n') {
      out->append("\\n");
    } else if (c == '\t') {
      out->append("\\t");
    } else {
      char escape[8];
      std::snprintf(escape, sizeof(escape), "\\u%04x",
                    static_cast<unsigned char>(c) < 0x80 ? static_cast<unsigned char>(c) : 0xFFFD);
      out->append(escape);
    }
    text.remove_prefix(length > 0 ? length : 1);
  }
  if (cut) out->append("...");
}

void append_value(std::string* out, const LogValue& value, bool json) {
  char text[40];
  switch (value.kind) {
    case LogValue::kBool:
      out->append(value.integer != 0 ? "true" : "false");
      return;
    case LogValue::kInteger:
      out->append(std::to_string(value.integer));
      return;
    case LogValue::kReal:
      if (!std::isfinite(value.real)) {    // JSON has no word for it
        out->append(json ? "null" : "none");
        return;
      }
      std::snprintf(text, sizeof(text), "%.6g", value.real);
      out->append(text);
      return;
    case LogValue::kText:
      break;
  }
  const bool quoted = json || value.text.empty() ||
                      value.text.find_first_of(" \"\\=\n\t") != std::string_view::npos;
  if (quoted) out->push_back('"');
  append_escaped(out, value.text);
  if (quoted) out->push_back('"');
}

void append_time(std::string* out, int64_t unix_ms, bool with_date) {
  const time_t seconds = static_cast<time_t>(unix_ms / 1000);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char text[48];
  size_t size =
      std::strftime(text, sizeof(text), with_date ? "%Y-%m-%dT%H:%M:%S" : "%H:%M:%S", &utc);
  std::snprintf(text + size, sizeof(text) - size, ".%03d", static_cast<int>(unix_ms % 1000));
  out->append(text);
  if (with_date) out->push_back('Z');
}

}  // namespace

std::string_view level_name(Level level) { return kNames[static_cast<int>(level)]; }

bool parse_level(std::string_view name, Level* level) {
  for (Level candidate : {Level::kDebug, Level::kInfo, Level::kWarning, Level::kError}) {
    if (name != level_name(candidate)) continue;
    *level = candidate;
    return true;
  }
  return false;
}

void set_log_level(Level level) { least_level = static_cast<int>(level); }
bool log_enabled(Level level) {
  return static_cast<int>(level) >= least_level.load(std::memory_order_relaxed);
}
void set_log_output(int descriptor, bool json) {
  output = descriptor;
  always_json = json;
}

std::string log_line(Level level, std::string_view event, std::initializer_list<LogField> fields,
                     int64_t unix_ms, bool json, bool color) {
  std::string line;
  line.reserve(256);
  if (json) {
    line.append("{\"time\":\"");
    append_time(&line, unix_ms, true);
    line.append("\",\"level\":\"").append(level_name(level)).append("\",\"event\":\"");
    append_escaped(&line, event);
    line.push_back('"');
  } else {
    if (color) line.append(kDim);
    append_time(&line, unix_ms, false);
    if (color) line.append(kPlain).append(kColors[static_cast<int>(level)]);
    line.append("  ").append(level_name(level));
    line.append(9 - level_name(level).size(), ' ');
    if (color) line.append(kPlain);
    append_escaped(&line, event);
    line.push_back(' ');
  }
  for (const LogField& field : fields) {
    line.append(json ? ",\"" : " ");
    if (!json && color) line.append(kDim);
    append_escaped(&line, field.name);
    line.append(json ? "\":" : "=");
    if (!json && color) line.append(kPlain);
    append_value(&line, field.value, json);
  }
  line.append(json ? "}\n" : "\n");
  return line;
}

void log(Level level, std::string_view event, std::initializer_list<LogField> fields) {
  if (!log_enabled(level)) return;
  const int descriptor = output;
  const bool terminal = !always_json && isatty(descriptor) != 0;
  const std::string line = log_line(level, event, fields, unix_ms(), !terminal, terminal);
  const std::lock_guard<std::mutex> lock(write_mutex);
  for (size_t done = 0; done < line.size();) {
    const ssize_t written = write(descriptor, line.data() + done, line.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    done += static_cast<size_t>(written);
  }
}

}  // namespace lw
