// Runs kernels statement by statement, without generating code: the interpreter's work, which an
// emulation (src/build/emulator/emulate.h) watches. Internal to src/build.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "loopwright/context.h"
#include "src/build/interpreter/lockstep.h"
#include "src/kernel/kernel.h"

namespace lw {

// What managed and items' private memories begin with: a number that every type has far from what
// kernels compute, so that reading what was never written shows.
inline constexpr std::byte kUnwritten{0x7f};

// What an execution asks and tells.
class ExecutionWatch {
 public:
  // Of a store, or of what a product reads, that is on its way: it begins or ends.
  enum class Way : uint8_t { kNone, kBegins, kEnds };
  struct Access {
    const Stmt& stmt;
    int buffer;
    int64_t element;
    bool write;
    bool changes;                          // what is written is not what is there
    Way way = Way::kNone;
    int64_t count = 1;                     // of elements that follow each other
  };
  virtual ~ExecutionWatch() = default;
  // Whether it may be done; if not, a load gives zero. Nothing else says whether it is in bounds.
  virtual bool access(const Access& access) = 0;
  virtual void begin_loop(const Stmt& loop) = 0;   // a parallel one
  virtual void end_loop() = 0;
  virtual void begin_group(int64_t group) = 0;
  virtual void begin_item(int64_t item) = 0;       // what follows is this item's, of the group
  virtual void barrier() = 0;                      // all items have arrived
  virtual void diverged(const Stmt& branch, int64_t one, int64_t other) = 0;  // around a barrier
  virtual void never_landed(const Stmt& store) = 0;  // where the group ends
  virtual bool stopped() const = 0;                // nothing more is to be run
};

struct Execution {
  ItemOrder order;
  ExecutionWatch* watch = nullptr;                  // then loops run on the caller's thread
  // Of parallel loops the groups that are run; of one that it does not name all are.
  const absl::flat_hash_map<const Stmt*, std::vector<int64_t>>* groups = nullptr;
};

// Runs a list of the kernel's statements, its body or its prepack. REQUIRES: verify accepts the
// kernel; where there is a watch, it may have accesses out of bounds and barriers where items
// diverge.
void execute(const Kernel& kernel, const std::vector<Stmt>& list, const lw_context* context,
             void* const* arguments, const Execution& execution = {});

}  // namespace lw
