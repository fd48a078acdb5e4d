// The four heads of the queues and the two next requests are all that can happen next; the earliest
// does. Whatever follows from it is later, so that time never goes back, DRAM sees requests in the
// order of their times, and a token that an engine takes is the earliest that it will ever see.
// What each head is waiting for is computed anew only where something it waits for has changed.
#include "src/npu/timing/timing.h"

#include <algorithm>

#include "src/base/check.h"
#include "src/base/message.h"
#include "src/base/named.h"
#include "src/npu/isa/check.h"
#include "src/npu/timing/array.h"
#include "src/npu/timing/dma.h"
#include "src/npu/timing/dram.h"
#include "src/npu/timing/semaphores.h"

namespace lw::npu {
namespace {

constexpr Named<Ending> kEndings[] = {{Ending::kDone, "done"},
                                      {Ending::kDeadlock, "deadlock"},
                                      {Ending::kOverflow, "semaphore overflow"}};

struct Slot {
  uint32_t instruction = 0;
  Ticks dispatched = 0;
  Ticks freed = 0;                         // when the one that was here before was taken
};

struct Head {                              // of an engine's queue
  explicit Head(int64_t depth) : slots(depth) {}

  std::vector<Slot> slots;                 // a ring
  size_t first = 0, last = 0, count = 0;
  uint64_t semaphores = 0;                 // that the first one waits for
  bool changed = false;
  Ticks start = kNever;                    // of the first one, as far as is known
  Ticks engine_ready = 0, token = 0;       // what that came from
  Ticks last_start = 0, last_done = 0;
  Ticks busy = 0, wait_token = 0, wait_dispatch = 0, wait_engine = 0;
};

constexpr int kLd = static_cast<int>(Engine::kLd), kMx = static_cast<int>(Engine::kMx),
              kVe = static_cast<int>(Engine::kVe), kSt = static_cast<int>(Engine::kSt);

class Simulation {
 public:
  Simulation(const Config& config, const Program& program, const TimingOptions& options)
      : config_(config), program_(program), options_(options), dram_(config), array_(config),
        in_turns_(config.mx.mode == ArrayMode::kDirect),
        dispatch_(from_cycles(config.queues.dispatch)),
        heads_{Head(config.queues.depth), Head(config.queues.depth), Head(config.queues.depth),
               Head(config.queues.depth)},
        ld_(config.queues.loads_in_flight, config.dma),
        st_(config.queues.stores_in_flight, config.dma) {}

  Timing run() {
    while (result_.ending == Ending::kDone) {
      dispatch();
      int next = 0;
      for (int e = 0; e < kEngines; ++e) {
        if (heads_[e].changed) look(e);
        if (heads_[e].start < heads_[next].start) next = e;
      }
      const Ticks start = heads_[next].start;
      if (ld_.request() < kNever && ld_.request() <= std::min(st_.request(), start)) {
        transfer(&ld_, kLd, std::min(st_.request(), start));
      } else if (st_.request() < kNever && st_.request() <= start) {
        transfer(&st_, kSt, std::min(ld_.request() - 1, start));
      } else if (start < kNever) {
        take(next);
      } else {
        break;
      }
    }
    finish();
    return std::move(result_);
  }

 private:
  // As many as there is room for.
  void dispatch() {
    for (; at_ < program_.size(); ++at_) {
      const Instruction& one = program_[at_];
      if (one.op().dispatcher) {
        if (!control(one)) return;
        continue;
      }
      const int e = static_cast<int>(one.op().engine);
      Head& head = heads_[e];
      if (head.count == head.slots.size()) return;
      Slot& slot = head.slots[head.last];
      if (slot.freed > time_) {
        queue_full_ += slot.freed - time_;
        note(e, Cause::kQueueFull, time_, slot.freed);
        time_ = slot.freed;
      }
      time_ += dispatch_;
      slot.instruction = static_cast<uint32_t>(at_);
      slot.dispatched = time_;
      if (++head.last == head.slots.size()) head.last = 0;
      if (++head.count == 1) arrive(e);
      ++result_.instructions;
    }
  }

  // False: it has to wait.
  bool control(const Instruction& one) {
    if (const auto* sync = std::get_if<Sync>(&one.body)) {
      for (int e = 0; e < kEngines; ++e) {
        if ((sync->mask >> e & 1) == 0) continue;
        if (heads_[e].count > 0 || (e == kLd && !ld_.idle()) || (e == kSt && !st_.idle())) {
          return false;
        }
        time_ = std::max(time_, heads_[e].last_done);
      }
    }
    time_ += dispatch_;
    ++result_.instructions;
    if (const auto* stamp = std::get_if<Stamp>(&one.body)) {
      result_.stamps.emplace_back(stamp->id, cycles_until(time_));
    }
    // Nothing behind it is dispatched.
    if (std::holds_alternative<Halt>(one.body)) at_ = program_.size() - 1;
    return true;
  }

  // An instruction has become the first of its queue.
  void arrive(int e) {
    Head& head = heads_[e];
    const Instruction& one = program_[head.slots[head.first].instruction];
    head.semaphores = 0;
    for (const uint8_t id : one.wait) {
      if (id != kNoToken) head.semaphores |= uint64_t{1} << id;
    }
    head.changed = true;
  }

  // When can it be taken?
  void look(int e) {
    Head& head = heads_[e];
    head.changed = false;
    const Slot& slot = head.slots[head.first];
    const Instruction& one = program_[slot.instruction];
    head.token = 0;
    for (const uint8_t id : one.wait) {
      if (id != kNoToken) head.token = std::max(head.token, semaphores_.earliest(id));
    }
    const Ticks ready = std::max({slot.dispatched, head.token, head.last_start});
    if (e == kMx) {
      head.engine_ready = std::max(array_.start(one, 0), in_turns_ ? heads_[kVe].last_done : 0);
    } else if (e == kVe) {
      head.engine_ready = std::max(head.last_done, in_turns_ ? heads_[kMx].last_done : 0);
    } else {
      head.engine_ready = (e == kLd ? ld_ : st_).ready();
    }
    head.start = std::min(kNever, std::max(ready, head.engine_ready));
  }

  void take(int e) {
    Head& head = heads_[e];
    Slot& slot = head.slots[head.first];
    const Instruction& one = program_[slot.instruction];
    const Ticks start = head.start;
    for (const uint8_t id : one.wait) {
      if (id != kNoToken) semaphores_.take(id);
    }
    note_waits(e, slot.dispatched);
    const uint32_t index = slot.instruction;
    slot.freed = start;
    head.last_start = start;
    if (++head.first == head.slots.size()) head.first = 0;
    if (--head.count > 0) {
      arrive(e);
    } else {
      head.start = kNever;
    }
    if (in_turns_ && (e == kMx || e == kVe)) {
      Head& other = heads_[kMx + kVe - e];
      other.changed = other.count > 0;
    }
    if (e == kMx) {
      result_.macs += macs(one);
      done(e, index, start, array_.take(one, start));
    } else if (e == kVe) {
      done(e, index, start, start + from_cycles(vector_cycles(config_, one)));
    } else {
      const Copy& copy = e == kLd ? static_cast<const Copy&>(std::get<Ld>(one.body))
                                  : std::get<St>(one.body);
      (e == kLd ? ld_ : st_).take(index, copy, dram_.chunk_bytes(), start);
      (e == kLd ? result_.bytes_read : result_.bytes_written) += dram_bytes(one);
    }
  }

  // Requests up to `limit`, or the end of a descriptor.
  void transfer(Dma* dma, int e, Ticks limit) {
    do {
      const Ticks asked = dma->request(), before = dma->waited;
      const bool last = dma->step(&dram_);
      note(e, Cause::kBus, asked, asked + dma->waited - before);
      if (!last) continue;
      const Dma::Finished& one = dma->finished;
      done(e, one.instruction, one.start, one.done);
      heads_[e].changed = heads_[e].count > 0;
      return;
    } while (dma->request() <= limit);
  }

  void done(int e, uint32_t index, Ticks start, Ticks end) {
    Head& head = heads_[e];
    if (end > head.last_done) {
      head.busy += end - std::max(start, head.last_done);
      head.last_done = end;
    }
    for (const uint8_t id : program_[index].signal) {
      if (id == kNoToken) continue;
      if (!semaphores_.add(id, end)) {
        result_.ending = Ending::kOverflow;
        result_.blocked = concat("instruction ", index, " (", program_[index].op().name,
                                 ") signals semaphore ", int{id}, ", which holds ",
                                 Semaphores::kMost, " tokens that nobody has taken\n");
      }
      for (Head& other : heads_) {
        if (other.count > 0 && (other.semaphores >> id & 1) != 0) other.changed = true;
      }
    }
    if (options_.timeline != nullptr) {
      options_.timeline->push_back({index, static_cast<Engine>(e), start, end});
    }
  }

  void note_waits(int e, Ticks dispatched) {
    Head& head = heads_[e];
    const Ticks engine = std::max(head.last_start, head.engine_ready);
    const Ticks queue = std::max(engine, dispatched);
    const Ticks start = std::max(queue, head.token);
    head.wait_engine += engine - head.last_start;
    head.wait_dispatch += queue - engine;
    head.wait_token += start - queue;
    note(e, Cause::kEngine, head.last_start, engine);
    note(e, Cause::kDispatch, engine, queue);
    note(e, Cause::kToken, queue, start);
  }

  void note(int e, Cause cause, Ticks begin, Ticks end) {
    if (options_.stalls == nullptr || begin == end) return;
    options_.stalls->push_back({static_cast<Engine>(e), cause, begin, end});
  }

  void finish() {
    Ticks end = time_;
    const Dma* const dmas[] = {&ld_, nullptr, nullptr, &st_};
    for (int e = 0; e < kEngines; ++e) {
      const Head& head = heads_[e];
      end = std::max(end, head.last_done);
      result_.busy[e] = to_cycles(head.busy);
      result_.stalls[e] = {to_cycles(head.wait_token), to_cycles(head.wait_dispatch),
                           to_cycles(head.wait_engine), 0};
      if (dmas[e] != nullptr) {
        result_.stalls[e].bus = to_cycles(dmas[e]->waited);
        result_.chunks += dmas[e]->chunks;
      }
      if (head.count > 0 && result_.ending == Ending::kDone) result_.ending = Ending::kDeadlock;
    }
    if (at_ < program_.size() && result_.ending == Ending::kDone) {
      result_.ending = Ending::kDeadlock;
    }
    if (result_.ending == Ending::kDeadlock) result_.blocked = blocked();
    result_.queue_full = to_cycles(queue_full_);
    result_.cycles = cycles_until(end);
    result_.ns = to_cycles(end) * 1000 / config_.clock_mhz;
    result_.dram_bytes = dram_.bytes();
    result_.row_hits = dram_.row_hits();
    result_.activates = dram_.activates();
  }

  std::string blocked() const {
    std::string text;
    for (int e = 0; e < kEngines; ++e) {
      const Head& head = heads_[e];
      if (head.count == 0) continue;
      const uint32_t index = head.slots[head.first].instruction;
      const Instruction& one = program_[index];
      text += concat(name_of(static_cast<Engine>(e)), ": instruction ", index, " (", one.op().name,
                     ") waits for");
      for (const uint8_t id : one.wait) {
        if (id != kNoToken && semaphores_.earliest(id) == kNever) {
          text += concat(" a token of semaphore ", int{id});
        }
      }
      text += concat("; ", head.count - 1, " more behind it\n");
    }
    if (at_ < program_.size()) {
      text += concat("dispatcher: instruction ", at_, " (", program_[at_].op().name,
                     program_[at_].op().dispatcher ? ") waits for engines to be idle\n"
                                                   : ") waits for a place in its engine's queue\n");
    }
    return text;
  }

  const Config& config_;
  const Program& program_;
  const TimingOptions& options_;
  Dram dram_;
  Array array_;
  Semaphores semaphores_;
  const bool in_turns_;                    // MX and VE
  const Ticks dispatch_;
  std::array<Head, kEngines> heads_;
  Dma ld_, st_;
  size_t at_ = 0;                          // the next to be dispatched
  Ticks time_ = 0, queue_full_ = 0;        // of the dispatcher
  Timing result_;
};

}  // namespace

std::string_view name_of(Ending ending) { return name_in(kEndings, ending); }

absl::StatusOr<Timing> simulate(const Config& config, const Program& program,
                                const TimingOptions& options) {
  if (!options.checked) RETURN_IF_ERROR(check_program(config, program));
  Timing timing = Simulation(config, program, options).run();
  timing.bounds = find_bounds(config, program);
  timing.efficiency = timing.cycles > 0 ? timing.bounds.largest() / timing.cycles : 0;
  return timing;
}

}  // namespace lw::npu
