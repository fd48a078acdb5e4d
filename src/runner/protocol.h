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

#include "src/measure/run/timing.h"

namespace lw::runner {

constexpr uint32_t kMagic = 0x31524c57;  // "WLR1"
constexpr uint16_t kVersion = 2;         // of everything below; the other end refuses any other
constexpr uint64_t kMaxPayload = uint64_t{1} << 32;

enum class Frame : uint16_t {
  kHello = 1,  // -> kGreeting
  kGreeting,   // {Greeting}
  kJob,        // {Job} -> kResult, kCrash or kRefusal
  kResult,     // {Result}
  kCrash,      // {Crash}: of the job's own process
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
  std::string machine;         // uname -m
  std::string system, cpu;     // its release, the processor's model; "": not known
  // What runs the runner where that is no processor of its own: "qemu-aarch64"; "": nothing does.
  // No clock that it reads there says anything of the processor.
  std::string emulator;
};
std::string encode_greeting(const Greeting& greeting);
std::optional<Greeting> decode_greeting(std::string_view payload);

// Code to put at its address, memory to give it, and what to do. Not timed: prepack (where there is
// such an entry) and one run. Timed: as `plan` says, or, of several codes or with rounds, in turns.
struct Job {
  struct Segment {
    uint64_t offset = 0, bytes = 0;
    bool writable = false, executable = false;
    std::string_view content;
  };
  struct Code {
    uint64_t base = 0, image_bytes = 0;
    uint64_t run = 0, prepack = 0;              // addresses; prepack 0: none
    uint64_t workspace_bytes = 0, packed_bytes = 0;
    std::vector<Segment> segments;
  };
  // An argument lies at `offset` in whole pages between two that nobody may touch. Inputs come with
  // the content of all their pages and are read-only; outputs' pages hold 0xff before the run.
  struct Argument {
    uint64_t pages = 0, offset = 0, bytes = 0;  // pages in bytes
    bool output = false;
    std::string_view content;                   // inputs: `pages` bytes
  };
  // That the context has: threads where it is timed, else played in turn by one.
  uint32_t workers = 1;
  bool timed = false;
  TimingPlan plan;                              // where it is timed
  uint32_t rounds = 0;                          // samples of each in turns; 0: time_call()
  std::vector<Code> codes;                      // one, of a job that is not timed in rounds
  std::vector<Argument> arguments;              // of all codes
};
std::string encode_job(const Job& job);
// The views point into `payload`. Checks that everything lies inside image, pages and payload, and
// that nothing is asked for that is none.
std::optional<Job> decode_job(std::string_view payload);

struct Result {
  struct Times {
    std::vector<double> samples_us;
    int64_t inner = 1;
    bool raced_out = false;
  };
  int32_t code = 0;             // what prepack or run returned
  bool intact = true;           // nothing was written beside workspace and packed operands
  double inside_s = 0;          // that timing took
  std::vector<Times> times;     // of each code, where it was timed
  std::vector<std::string_view> outputs;  // all pages of each, in order, as the last run left them
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
