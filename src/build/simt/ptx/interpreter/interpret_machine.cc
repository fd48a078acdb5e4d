// Runs blocks and warps (interpret_machine.h), and what is asked of a warp's state.
#include "src/build/simt/ptx/interpreter/interpret_machine.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/build/simt/ptx/interpreter/interpret_code.h"

namespace lw::ptx_interpreter {
std::string lanes_text(uint32_t mask) {
  std::string out;
  for (int lane = 0; lane < 32; ++lane) {
    if (!(mask >> lane & 1)) continue;
    int last = lane;
    while (last < 31 && (mask >> (last + 1) & 1)) ++last;
    out += concat(out.empty() ? "" : ",", lane);
    if (last > lane) out += concat("-", last);
    lane = last;
  }
  return out.empty() ? "none" : out;
}

std::string Block::name() const {
  if (at[1] == 0 && at[2] == 0) return concat("block ", at[0]);
  return concat("block ", at[0], ",", at[1], ",", at[2]);
}

void Warp::fail(const Instruction& in, int lane, std::string_view what) {
  if (failed) return;
  failed = true;
  const std::string who = lane < 0 ? concat("warp ", index) : concat("thread ", index * 32 + lane);
  machine->status = absl::InternalError(
      concat("line ", in.line, ": '", in.text, "': ", what, " (", block->name(), ", ", who, ")"));
}

bool Warp::same(const Instruction& in, uint32_t mask, int32_t slot, uint32_t* value) {
  *value = get<uint32_t>(slot, __builtin_ctz(mask));
  for (int lane = 0; lane < 32; ++lane) {
    if ((mask >> lane & 1) && get<uint32_t>(slot, lane) != *value) {
      fail(in, lane, "lanes give different values where all must give the same");
      return false;
    }
  }
  return true;
}

std::byte* Machine::global(uint64_t address, int64_t bytes, bool write) {
  const auto inside = [&](const PtxMemory& m) {
    return address >= m.address && address - m.address <= static_cast<uint64_t>(m.bytes) &&
           static_cast<uint64_t>(m.bytes) - (address - m.address) >= static_cast<uint64_t>(bytes);
  };
  if (last_memory >= memory.size() || !inside(memory[last_memory])) {
    const auto after =
        std::upper_bound(memory.begin(), memory.end(), address,
                         [](uint64_t value, const PtxMemory& m) { return value < m.address; });
    if (after == memory.begin()) return nullptr;
    const size_t found = static_cast<size_t>(after - memory.begin()) - 1;
    if (!inside(memory[found])) return nullptr;
    last_memory = found;
  }
  if (write && !memory[last_memory].writable) return nullptr;
  return reinterpret_cast<std::byte*>(address);
}

std::byte* Warp::at(const Instruction& in, int lane, Space space, uint64_t address, int64_t bytes,
                    bool write) {
  const int64_t alignment = bytes > 0 && (bytes & (bytes - 1)) == 0 ? bytes : 4;
  if (address % static_cast<uint64_t>(std::min<int64_t>(alignment, 16)) != 0) {
    fail(in, lane, concat("address ", address, " is not a multiple of ", alignment));
    return nullptr;
  }
  Block* owner = block;
  const char* memory_name = "global";
  switch (space) {
    case Space::kGeneric: {
      for (const auto& b : machine->blocks) {
        const uint64_t begin = reinterpret_cast<uint64_t>(b->shared);
        if (address >= begin && address + bytes <= begin + static_cast<uint64_t>(b->shared_bytes)) {
          return reinterpret_cast<std::byte*>(address);
        }
      }
      const uint64_t begin = reinterpret_cast<uint64_t>(machine->parameters);
      if (!write && address >= begin && address + bytes <= begin + machine->parameter_bytes) {
        return reinterpret_cast<std::byte*>(address);
      }
      [[fallthrough]];
    }
    case Space::kGlobal:
      if (std::byte* found = machine->global(address, bytes, write)) return found;
      if (write && machine->global(address, bytes, false) != nullptr) {
        fail(in, lane, concat("writes ", bytes, " bytes at ", address, ", which are read-only"));
        return nullptr;
      }
      break;
    case Space::kCluster:
      memory_name = "shared::cluster";
      if (address >> 24 != 0) {
        const uint64_t rank = (address >> 24) - 1;
        if (rank >= machine->blocks.size()) break;
        owner = machine->blocks[rank].get();
        address &= (1 << 24) - 1;
      }
      [[fallthrough]];
    case Space::kShared: {
      const int64_t begin = static_cast<int64_t>(address) - kSharedBase;
      if (begin >= 0 && begin + bytes <= owner->shared_bytes) return owner->shared + begin;
      memory_name = "shared";
      break;
    }
    case Space::kLocal: {
      const int64_t size = machine->function->entry.local_bytes;
      const int64_t begin = static_cast<int64_t>(address) - kLocalBase;
      if (begin >= 0 && begin + bytes <= size) return local.data() + lane * size + begin;
      memory_name = "local";
      break;
    }
    case Space::kParam: {
      memory_name = "parameter";
      if (write) break;
      if (address + bytes <= machine->parameter_bytes) {
        return machine->parameters + address;
      }
      break;
    }
  }
  fail(in, lane,
       concat(write ? "writes " : "reads ", bytes, " bytes at ", address, ", out of bounds of ",
              memory_name, " memory"));
  return nullptr;
}

void release_barrier(Block* block, int barrier) {
  for (const auto& warp : block->warps) {
    for (Fragment& f : warp->fragments) {
      if (f.state != Fragment::State::kBarrier || f.barrier != barrier) continue;
      f.state = Fragment::State::kRun;
      f.barrier = -1;
      ++f.pc;
    }
  }
}

void Machine::begin_warp(Warp* warp) {
  warp->machine = this;
  const std::vector<Slot>& slots = function->slots;
  const int64_t begin = warp->index * 32;
  const int64_t count = std::min<int64_t>(32, warp->block->threads - begin);
  warp->all = warp->alive = count == 32 ? kAllLanes : (1u << count) - 1;
  warp->fragments.assign(1, {0, warp->all});
  warp->lanes.assign(slots.size() * 32, 0);
  warp->bits.assign(slots.size(), 0);
  warp->written.assign(slots.size(), 0);
  for (auto& copies : warp->copies) copies = {};
  warp->bulk = false;
  warp->cluster_arrived = 0;
  warp->cluster_phase.fill(0);
  warp->products.clear();
  warp->in_flight.assign(slots.size(), 0);
  warp->product_count = 0;
  warp->local.assign(static_cast<size_t>(function->entry.local_bytes) * 32, std::byte{0x7f});
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].kind == Slot::Kind::kRegister) continue;
    warp->written[i] = kAllLanes;
    for (int lane = 0; lane < 32; ++lane) {
      warp->lanes[i * 32 + lane] = slots[i].kind == Slot::Kind::kConstant
                                       ? slots[i].bits
                                       : special_value(slots[i], *warp, lane);
    }
  }
}

void Machine::begin_block(Block* block) {
  block->threads = launch->items[0] * launch->items[1] * launch->items[2];
  block->barriers = {};
  block->mbarriers.clear();
  block->product_log.clear();
  block->shared_bytes = launch->shared_bytes + function->entry.static_shared_bytes;
  block->shared_storage.assign(static_cast<size_t>(block->shared_bytes) + 1024, std::byte{0x7f});
  const uint64_t storage = reinterpret_cast<uint64_t>(block->shared_storage.data());
  block->shared = reinterpret_cast<std::byte*>((storage + 1023) / 1024 * 1024);
  const size_t warps = static_cast<size_t>((block->threads + 31) / 32);
  block->warps.resize(warps);
  for (size_t i = 0; i < warps; ++i) {
    if (block->warps[i] == nullptr) block->warps[i] = std::make_unique<Warp>();
    block->warps[i]->block = block;
    block->warps[i]->index = static_cast<int>(i);
  }
  for (const auto& warp : block->warps) begin_warp(warp.get());
}

absl::Status Machine::deadlock() const {
  std::string text;
  for (const auto& block : blocks) {
    for (const auto& warp : block->warps) {
      for (const Fragment& f : warp->fragments) {
        const Instruction& in = function->code[f.pc];
        if (!text.empty()) text += "; ";
        text += concat(block->name(), " warp ", warp->index, " lanes ", lanes_text(f.mask),
                       " at line ", in.line, " '", in.text, "'");
        if (f.barrier >= 0) {
          const Barrier& b = block->barriers[f.barrier];
          text += concat(" (barrier ", f.barrier, ": ", b.arrived, " of ", b.expected, " threads)");
        }
        if (f.state == Fragment::State::kPoll) text += waited_for(*warp, in, f.mask);
      }
    }
  }
  return absl::InternalError(concat("deadlock: ", text));
}

absl::Status Machine::run_cluster(int64_t cluster) {
  const auto& shape = launch->cluster;
  const int64_t across = launch->groups[0] / shape[0], down = launch->groups[1] / shape[1];
  const std::array<int64_t, 3> first = {cluster % across * shape[0],
                                        cluster / across % down * shape[1],
                                        cluster / across / down * shape[2]};
  blocks.resize(static_cast<size_t>(shape[0] * shape[1] * shape[2]));
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i] == nullptr) blocks[i] = std::make_unique<Block>();
    const int64_t rank = static_cast<int64_t>(i);
    blocks[i]->rank = static_cast<int>(rank);
    blocks[i]->at = {first[0] + rank % shape[0], first[1] + rank / shape[0] % shape[1],
                     first[2] + rank / shape[0] / shape[1]};
    begin_block(blocks[i].get());
  }
  cluster_phase = 0;
  deliveries.clear();
  std::vector<Warp*> order;
  for (const auto& block : blocks) {
    for (const auto& warp : block->warps) order.push_back(warp.get());
  }
  while (!order.empty()) {
    if (options.seed != 0) random.shuffle(&order);
    bool progress = false;
    for (Warp* warp : order) {
      if (!run_warp(warp, &progress)) return status;
    }
    std::erase_if(order, [](const Warp* warp) { return warp->alive == 0; });
    if (progress || order.empty()) continue;
    // What is under way lands only now, one by one.
    if (deliveries.empty()) return deadlock();
    const int64_t count = static_cast<int64_t>(deliveries.size());
    deliver(options.seed == 0 ? 0 : static_cast<size_t>(random.below(count)));
    if (!status.ok()) return status;
  }
  for (const auto& block : blocks) RETURN_IF_ERROR(check_products(*block));
  if (!deliveries.empty()) {
    return absl::InternalError(concat(blocks[0]->name(), ": all threads have ended, and ",
                                      deliveries.size(), " asynchronous copies have not landed"));
  }
  return absl::OkStatus();
}

void Machine::deliver(size_t which) {
  const std::function<void()> land = std::move(deliveries[which]);
  deliveries.erase(deliveries.begin() + static_cast<int64_t>(which));
  land();
}

absl::Status Machine::run() {
  const auto& shape = launch->cluster;
  const int64_t clusters = launch->groups[0] / shape[0] * (launch->groups[1] / shape[1]) *
                           (launch->groups[2] / shape[2]);
  std::vector<int64_t> order(static_cast<size_t>(clusters));
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  random = Rng(options.seed);
  if (options.seed != 0) random.shuffle(&order);
  for (const int64_t cluster : order) RETURN_IF_ERROR(run_cluster(cluster));
  return absl::OkStatus();
}

bool Machine::check_stuck(Warp* warp) {
  // Nothing of the warp can run. Lanes that wait for others wait in vain if those have ended or
  // wait for lanes elsewhere themselves; behind a barrier they may still come.
  for (const Fragment& f : warp->fragments) {
    if (f.state != Fragment::State::kLanes) continue;
    for (const Fragment& other : warp->fragments) {
      if (other.state == Fragment::State::kBarrier || other.state == Fragment::State::kPoll) {
        return true;
      }
    }
    std::string text = concat("only lanes ", lanes_text(f.mask), " of the warp's come here");
    for (const Fragment& other : warp->fragments) {
      if (&other == &f) continue;
      text += concat("; lanes ", lanes_text(other.mask), " are at line ",
                     function->code[other.pc].line, " '", function->code[other.pc].text, "'");
    }
    if (warp->alive != warp->all) {
      text += concat("; lanes ", lanes_text(warp->all & ~warp->alive), " have ended");
    }
    warp->fail(function->code[f.pc], -1, text);
    return false;
  }
  return true;
}

bool Machine::run_warp(Warp* warp, bool* progress) {
  // Whoever polls sees what has changed since.
  for (Fragment& f : warp->fragments) {
    if (f.state == Fragment::State::kPoll) f.state = Fragment::State::kRun;
  }
  constexpr int64_t kMostInTurn = 256;
  const int64_t before = steps;
  left = options.seed == 0 ? INT64_MAX : 1 + static_cast<int64_t>(random.below(kMostInTurn));
  while (true) {
    std::vector<Fragment>& fragments = warp->fragments;
    size_t best = fragments.size();
    for (size_t i = 0; i < fragments.size(); ++i) {
      if (fragments[i].state != Fragment::State::kRun) continue;
      if (best == fragments.size() || fragments[i].pc < fragments[best].pc) best = i;
    }
    if (best == fragments.size()) break;
    for (size_t i = fragments.size(); i-- > 0;) {
      const bool here = fragments[i].state == Fragment::State::kRun ||
                        fragments[i].state == Fragment::State::kLanes;
      if (i == best || !here || fragments[i].pc != fragments[best].pc) continue;
      fragments[best].mask |= fragments[i].mask;
      fragments.erase(fragments.begin() + static_cast<int64_t>(i));
      if (i < best) --best;
    }
    if (!run_fragment(warp, best)) return false;
    if (left > 0) continue;
    *progress = true;
    return true;                           // others may come before it ends, or has to wait
  }
  if (steps != before) *progress = true;
  return warp->alive == 0 || check_stuck(warp);
}

bool may_touch(Warp& warp, const Instruction& in, int lane, uint64_t address, int64_t bytes,
               bool write) {
  if (warp.machine->global(address, bytes, write) != nullptr) return true;
  warp.fail(in, lane,
            concat(write ? "writes " : "reads ", bytes, " bytes at ", address,
                   ", out of bounds of global memory"));
  return false;
}

}  // namespace lw::ptx_interpreter
