// What runs a launch: blocks, warps, and the parts (fragments) into which a warp's lanes fall where
// they branch apart. Of the fragments that can run the one that is furthest behind in the code
// does, so that they meet again where branches join. For one thread.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "src/base/message.h"
#include "src/base/rng.h"
#include "src/build/simt/ptx/interpreter/interpret_code.h"

namespace lw::ptx_interpreter {

inline constexpr uint32_t kAllLanes = 0xffffffff;
inline constexpr uint32_t kPoison = 0x7fc0dead;  // what a pending asynchronous copy will overwrite

struct Fragment {
  enum class State : uint8_t {
    kRun,
    kLanes,    // at `pc`, until the lanes that it needs are there too
    kBarrier,  // at `pc`, in `barrier`
    kPoll,     // at `pc`; may run again when anything has changed
  };
  uint32_t pc = 0, mask = 0;
  State state = State::kRun;
  int barrier = -1;  // kBarrier
};

// A cp.async that has not landed yet.
struct Copy {
  uint64_t from = 0, to = 0;
  int32_t bytes = 0, read_bytes = 0;  // beyond what is read come zeros
};

// From shared to global memory, in two steps.
struct BulkStore {
  std::function<void(std::vector<std::byte>*)> read;
  std::function<void(const std::vector<std::byte>&)> write;
  bool was_read = false;
  std::vector<std::byte> data;
};

struct LaneCopies {
  std::vector<Copy> open;                // not committed
  std::deque<std::vector<Copy>> groups;  // oldest first
  std::vector<BulkStore> bulk_open;
  std::deque<std::vector<BulkStore>> bulk_groups;
};

// A wgmma that has not been computed yet: of which instruction, with which operands.
struct Product {
  const Instruction* in = nullptr;
  uint64_t a = 0, b = 0;  // descriptors
  bool accumulate = false;
  int group = 0;  // 0: not committed
  bool operator==(const Product& other) const {
    return in == other.in && a == other.a && b == other.b && accumulate == other.accumulate;
  }
};

struct Mbarrier {
  int64_t count = 0, pending = 0;  // arrivals of a phase, those that are missing
  int64_t bytes = 0;               // that are expected and have not come
  uint64_t phase = 0;
};

struct Block;
struct Machine;

struct Warp {
  Machine* machine = nullptr;
  Block* block = nullptr;
  int index = 0;                // in its block
  uint32_t all = 0, alive = 0;  // lanes that there are, that have not ended
  std::vector<Fragment> fragments;
  std::vector<uint64_t> lanes;    // slot * 32 + lane
  std::vector<uint32_t> bits;     // predicates, a slot's 32 lanes
  std::vector<uint32_t> written;  // by slot, the lanes that were
  std::array<LaneCopies, 32> copies;
  std::vector<std::byte> local;                 // lane after lane
  bool bulk = false;                            // some lane has stored in bulk
  uint32_t cluster_arrived = 0;                 // lanes, at the cluster's barrier
  std::array<uint64_t, 32> cluster_phase = {};  // when they arrived
  std::deque<Product> products;                 // oldest first
  std::vector<uint8_t> in_flight;               // slots that are accumulators of those
  int product_groups = 0;                       // committed ones so far
  size_t product_count = 0;                     // issued so far
  // A handler's answers to the loop that runs it.
  bool failed = false;
  int wait_barrier = -1;    // kBarrier: the fragment waits there
  int full_barrier = -1;    // kBarrier: all have arrived at it
  bool poll_again = false;  // kPoll: nothing was done
  bool gave_up = false;     // a wait has said that it is not over, and none that it is since

  template <class T>
  T get(int32_t slot, int lane) const {
    T value;
    std::memcpy(&value, &lanes[static_cast<size_t>(slot) * 32 + lane], sizeof(T));
    return value;
  }
  template <class T>
  void set(int32_t slot, int lane, T value) {
    uint64_t bits_of = 0;
    std::memcpy(&bits_of, &value, sizeof(T));
    lanes[static_cast<size_t>(slot) * 32 + lane] = bits_of;
  }
  bool bit(int32_t slot, int lane) const { return bits[slot] >> lane & 1; }
  void set_bits(int32_t slot, uint32_t mask, uint32_t value) {
    bits[slot] = (bits[slot] & ~mask) | (value & mask);
  }
  // lane < 0: of no single lane.
  void fail(const Instruction& in, int lane, std::string_view what);
  // The host's bytes, or null after an error.
  std::byte* at(const Instruction& in, int lane, Space space, uint64_t address, int64_t bytes,
                bool write);
  // The value that all lanes of the mask have; an error if they differ.
  bool same(const Instruction& in, uint32_t mask, int32_t slot, uint32_t* value);
};

std::string lanes_text(uint32_t mask);  // "0-8,12"

template <class F>
void each_lane(uint32_t mask, F&& f) {
  if (mask == kAllLanes) {
    for (int lane = 0; lane < 32; ++lane) f(lane);
    return;
  }
  for (; mask != 0; mask &= mask - 1) f(__builtin_ctz(mask));
}

struct Barrier {
  int64_t expected = 0, arrived = 0;  // threads; expected 0: nobody has arrived
};

struct Block {
  std::array<int64_t, 3> at = {0, 0, 0};
  int rank = 0;  // in its cluster
  std::vector<std::byte> shared_storage;
  std::byte* shared = nullptr;  // aligned to 1024
  int64_t shared_bytes = 0;
  std::vector<std::unique_ptr<Warp>> warps;
  std::array<Barrier, 16> barriers;
  int64_t threads = 0;
  absl::flat_hash_map<int64_t, Mbarrier> mbarriers;  // by offset
  // What the first warp of each warpgroup to come has issued, for the others to agree.
  absl::flat_hash_map<int, std::vector<Product>> product_log;
  std::string name() const;
};

struct Machine {
  const Function* function = nullptr;
  const PtxLaunch* launch = nullptr;
  PtxOptions options;
  std::vector<PtxMemory> memory;  // sorted by address
  size_t last_memory = 0;
  std::vector<std::byte> parameter_storage;
  std::byte* parameters = nullptr;  // aligned to 128
  uint64_t parameter_bytes = 0;
  std::vector<std::function<void()>> deliveries;  // what is under way to a barrier
  uint64_t cluster_phase = 0;
  std::vector<std::unique_ptr<Block>> blocks;  // of the cluster that runs
  Rng random{0};
  int64_t left = 0;  // instructions until another warp's turn, of orders that are drawn
  int64_t steps = 0;
  absl::Status status;

  absl::Status run();
  void deliver(size_t which);
  std::byte* global(uint64_t address, int64_t bytes, bool write);  // null: out of bounds

 private:
  absl::Status run_cluster(int64_t cluster);
  void begin_block(Block* block);
  void begin_warp(Warp* warp);
  // False: an error. `progress` is set if anything was executed.
  bool run_warp(Warp* warp, bool* progress);
  bool run_fragment(Warp* warp, size_t which);
  bool execute(Warp* warp, const Instruction& in, uint32_t mask);
  bool end_lanes(Warp* warp);  // some of its lanes have ended
  bool check_stuck(Warp* warp);
  // An instruction at which lanes have to meet, or that may wait. True: no error; the fragment has
  // moved on or waits.
  bool collective(Warp* warp, size_t which, uint32_t active);
  absl::Status deadlock() const;
};

uint32_t special_value(const Slot& slot, const Warp& warp, int lane);
// The block in whose shared memory the byte lies.
Block* owner_of(Machine* machine, const std::byte* place);
// What a fragment polls, for reports.
std::string waited_for(const Warp& warp, const Instruction& in, uint32_t mask);
// Null after an error: nothing was initialized there.
Mbarrier* mbarrier_at(Warp& warp, const Instruction& in, int lane, Space space, uint64_t address);
void complete_bytes(Mbarrier* barrier, int64_t bytes);
// At the end of a lane: what it stored lands. False: some of it was not even read.
bool finish_bulk(Warp* warp, int lane);
// Whether all warps of each warpgroup have issued the same.
absl::Status check_products(const Block& block);
// Lets those go on that wait at a barrier of which all arrived.
void release_barrier(Block* block, int barrier);
// Whether the lane's access is to global memory; after an error it is not.
bool may_touch(Warp& warp, const Instruction& in, int lane, uint64_t address, int64_t bytes,
               bool write);
// Of what orders, or asks for, more than this interpreter knows.
inline void run_nothing(Warp&, const Instruction&, uint32_t) {}

}  // namespace lw::ptx_interpreter
