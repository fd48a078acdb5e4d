// How long a program takes on a machine: engines that wait for tokens, event by event, exact and
// the same every time. Nothing is computed here but time.
//
// The dispatcher takes dispatch_cyc an instruction, in program order, and puts it into its engine's
// queue; a full one holds up all that follow. An engine takes the first of its queue once it can
// and a token of each semaphore that the instruction waits for is there; it takes them. What is
// done adds a token to each that it signals. Engines:
//   LD, ST  ld_inflight (st_inflight) descriptors at once, the next one's setup beside the
//           transfer; requests in order, at most `window` unanswered; LD's and ST's reach DRAM in the
//           order of their times, LD's first of equals. Done, in order: the last byte has arrived.
//   MX      array.h; one instruction begins after the other
//   VE      one instruction at a time (bounds.h has its cycles); where folds are `direct`, it and
//           MX take turns, MX first where both could begin: VTA has one core for the two
// A program has ended when it has been dispatched up to its `halt` and every engine is idle.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/npu/isa/isa.h"
#include "src/npu/timing/bounds.h"
#include "src/npu/timing/ticks.h"

namespace lw::npu {

// done; deadlock: nothing can go on, `blocked` says why; overflow: a semaphore would have held more
// than 255.
enum class Ending { kDone, kDeadlock, kOverflow };
std::string_view name_of(Ending ending);

// Of an engine: cycles in which its next instruction had not begun though the one before was taken.
struct Stalls {
  double token = 0;                        // a token was not there
  double dispatch = 0;                     // it was not dispatched yet
  double engine = 0;                       // the engine was not ready: port, weights, descriptors
  double bus = 0;                          // LD, ST: of ports and buses, added up over chunks
};

struct Span {                              // of the timeline
  uint32_t instruction;
  Engine engine;
  Ticks begin, end;
};

// Why something did not go on. Of an engine's next instruction: as in Stalls. kQueueFull: the
// dispatcher's, which had an instruction for the engine.
enum class Cause { kToken, kDispatch, kEngine, kBus, kQueueFull };

// Those of an engine and a cause are in the order of their times, and may overlap where it is kBus,
// since several requests wait at once.
struct Stall {
  Engine engine;
  Cause cause;
  Ticks begin, end;
};

struct Timing {
  Ending ending = Ending::kDone;
  std::string blocked;                     // a line for each engine that waits
  int64_t cycles = 0;                      // whole ones, until the last engine is done
  double ns = 0;
  int64_t instructions = 0;                // dispatched
  std::array<double, kEngines> busy = {};  // cycles in which the engine has something under way
  std::array<Stalls, kEngines> stalls = {};
  double queue_full = 0;                   // cycles in which the dispatcher waited for a queue
  int64_t macs = 0, bytes_read = 0, bytes_written = 0;
  int64_t dram_bytes = 0;                  // both ways, in whole beats
  int64_t chunks = 0, row_hits = 0, activates = 0;
  Bounds bounds;
  double efficiency = 0;                   // the largest bound / cycles
  std::vector<std::pair<int, int64_t>> stamps;   // id, cycle
};

struct TimingOptions {
  std::vector<Span>* timeline = nullptr;   // appended to; null: nobody asks
  std::vector<Stall>* stalls = nullptr;    // the same
  bool checked = false;                    // check_program has accepted the program
};

// kInvalidArgument: what check_program refuses, unless it is `checked`. REQUIRES: check_config(config)
// is OK. Pure; thread-safe; memory is asked for before the first event.
absl::StatusOr<Timing> simulate(const Config& config, const Program& program,
                                const TimingOptions& options = {});

}  // namespace lw::npu
