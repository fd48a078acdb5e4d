// What travels between a host and lw_runner (runner.cc), the program that runs kernels on a device:
// one job, one answer, over stdin and stdout or any other stream. Little endian on both ends. No
// dependencies: the runner is cross-compiled alone.
//
// A frame is a header of 16 bytes and its payload. Decoders take any bytes: every length is checked
// before use, and what they return lies inside the payload. Thread-safe; values and free functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lw::runner {

constexpr uint32_t kMagic = 0x31524c57;  // "WLR1"
constexpr uint16_t kVersion = 1;         // of everything below; the other end refuses any other
constexpr uint64_t kMaxPayload = uint64_t{1} << 32;

enum class Frame : uint16_t {
  kHello = 1,  // -> kGreeting
  kGreeting,   // {Greeting}
  kJob,        // {Job} -> kResult, kCrash or kRefusal
  kResult,     // {Result}
  kCrash,      // {Crash}; the runner has ended
  kRefusal,    // {text}: the job makes no sense here
};

struct Header {
  uint32_t magic = kMagic;
  uint16_t version = kVersion;
  Frame type = Frame::kHello;
  uint64_t bytes = 0;  // of the payload
};
constexpr size_t kHeaderBytes = 16;
std::string encode_header(const Header& header);
// nullopt: another protocol or version, an unknown type, or a payload beyond kMaxPayload.
std::optional<Header> decode_header(std::string_view bytes);

struct Greeting {
  uint32_t page_bytes = 0;
  uint32_t processors = 0;
  std::string machine;  // uname -m
};
std::string encode_greeting(const Greeting& greeting);
std::optional<Greeting> decode_greeting(std::string_view payload);

// Code to put at its address, memory to give it, and what to do: prepack (where there is such an
// entry), run once, and then, if wanted, timed runs.
struct Job {
  struct Segment {
    uint64_t offset = 0, bytes = 0;
    bool writable = false, executable = false;
    std::string_view content;
  };
  // An argument lies at `offset` in whole pages between two that nobody may touch. Inputs come with
  // the content of all their pages and are read-only; outputs' pages hold 0xff before the run.
  struct Argument {
    uint64_t pages = 0, offset = 0, bytes = 0;  // pages in bytes
    bool output = false;
    std::string_view content;                   // inputs: `pages` bytes
  };
  uint64_t base = 0, image_bytes = 0;
  uint64_t run = 0, prepack = 0;                // addresses; prepack 0: none
  uint64_t workspace_bytes = 0, packed_bytes = 0;
  uint32_t workers = 1;                         // that the context has; run in turn by one thread
  uint32_t samples = 0, inner = 1;              // timed samples of so many runs each
  std::vector<Segment> segments;
  std::vector<Argument> arguments;
};
std::string encode_job(const Job& job);
// The views point into `payload`. Checks that everything lies inside image, pages and payload.
std::optional<Job> decode_job(std::string_view payload);

struct Result {
  int32_t code = 0;             // what prepack or run returned
  bool intact = true;           // nothing was written beside workspace and packed operands
  std::vector<double> samples_us;
  std::vector<std::string_view> outputs;  // all pages of each, in order
};
std::string encode_result(const Result& result);
std::optional<Result> decode_result(std::string_view payload);

// A signal, and where memory was: what the handler knows.
struct Region {
  static constexpr int32_t kWorkspace = -1, kPacked = -2;
  int32_t argument = 0;          // or one of the above
  uint64_t low = 0, begin = 0, end = 0, high = 0;  // low, high: with the guard pages
};
struct Crash {
  int32_t signal = 0;            // Linux's number
  bool wrote = false;
  uint64_t address = 0;
  std::vector<Region> regions;
};
std::string encode_crash(const Crash& crash);
std::optional<Crash> decode_crash(std::string_view payload);
// Where encode_crash puts what only the signal handler knows.
constexpr size_t kCrashSignalAt = 0, kCrashWroteAt = 4, kCrashAddressAt = 8;

}  // namespace lw::runner
