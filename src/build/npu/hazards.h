// Which operations an operation has to come after: those of other engines that touch the same part
// of a memory, one of the two writing; an engine is done with its own in order, but for packing.
// Internal to src/build/npu.
//
// Of each memory and lane the parts that it reads and those that it writes are known, each with
// the operation that did so last. What a write covers need not be known any longer: whoever comes
// after that comes after this. A lane's reads of parts that overlap count as one.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "src/build/npu/operations.h"

namespace lw::npu_build {

// Who is done in order: each engine, but that output-stationary products of the array and its
// packer may overtake others and are lanes of their own, the last.
inline constexpr int kStreams = npu::kEngines, kPacks = kStreams + 1, kLanes = kPacks + 1;
inline int lane_of(const npu::Instruction& instruction) {
  if (std::holds_alternative<npu::MxMmos>(instruction.body)) return kStreams;
  if (std::holds_alternative<npu::MxCol>(instruction.body)) return kPacks;
  return static_cast<int>(instruction.op().engine);
}
inline int engine_of(int lane) {
  return lane >= kStreams ? static_cast<int>(npu::Engine::kMx) : lane;
}
// Whether one of `lane` has to wait for what it comes after of `other`: of another engine; and
// packing may be done while products that were begun before still run.
inline bool waits(int lane, int other) {
  return engine_of(lane) != engine_of(other) || (lane == kPacks && other != kPacks);
}

// By lane the last operation, by its number, that one has to wait for; -1: none.
using Latest = std::array<int32_t, kLanes>;
inline constexpr Latest kNothing = {-1, -1, -1, -1, -1, -1};

// Parts of a memory, by where they begin. Numbers only grow.
class Parts {
 public:
  // The last that touched one of [begin, end), if it is behind `known`; else -1.
  int32_t latest(int64_t begin, int64_t end, int32_t known) const {
    int32_t last = -1;
    if (newest_ <= known) return last;
    for (const Part& part : parts_) {
      if (part.begin >= end) break;
      if (part.number > known && part.end > begin) last = std::max(last, part.number);
    }
    return last;
  }

  // Parts may overlap.
  void add_write(int64_t begin, int64_t end, int32_t number) {
    newest_ = number;
    const auto same = [&](const Part& part) { return part.begin == begin && part.end == end; };
    if (Part* const part = look_near(same)) {
      part->number = number;
      return;
    }
    const auto at = first_from(begin);
    const size_t place = static_cast<size_t>(at - parts_.begin());
    if (at == parts_.end() || !same(*at)) {
      drop_inside(begin, end);
      parts_.insert(parts_.begin() + static_cast<int64_t>(place), {begin, end, number});
    }
    parts_[place].number = number;
    note_near(place);
  }

  // Parts stay apart.
  void add_read(int64_t begin, int64_t end, int32_t number) {
    newest_ = number;
    const auto holds = [&](const Part& part) { return part.begin <= begin && end <= part.end; };
    if (Part* const part = look_near(holds)) {
      part->number = number;
      return;
    }
    const auto first = std::partition_point(parts_.begin(), parts_.end(),
                                            [&](const Part& part) { return part.end <= begin; });
    auto last = first;
    while (last != parts_.end() && last->begin < end) {
      begin = std::min(begin, last->begin);
      end = std::max(end, last->end);
      ++last;
    }
    note_near(static_cast<size_t>(first - parts_.begin()));
    if (first == last) {
      parts_.insert(first, {begin, end, number});
    } else {
      *first = {begin, end, number};
      parts_.erase(first + 1, last);
    }
  }

  void drop_inside(int64_t begin, int64_t end) {
    if (parts_.empty()) return;
    const auto first = first_from(begin);
    auto kept = first, last = first;
    for (; last != parts_.end() && last->begin < end; ++last) {
      if (last->end > end) *kept++ = *last;
    }
    parts_.erase(kept, last);
  }

 private:
  struct Part {
    int64_t begin, end;
    int32_t number;
  };

  // Blocks come in rows: what is looked for mostly is where one of the latest two was, or follows.
  template <class Is>
  Part* look_near(const Is& is) {
    for (size_t& near : near_) {
      for (const size_t at : {near, near + 1}) {
        if (at < parts_.size() && is(parts_[at])) return &parts_[near = at];
      }
    }
    return nullptr;
  }
  void note_near(size_t at) {
    near_[1] = near_[0];
    near_[0] = at;
  }

  std::vector<Part>::iterator first_from(int64_t begin) {
    return std::partition_point(parts_.begin(), parts_.end(),
                                [&](const Part& part) { return part.begin < begin; });
  }

  std::vector<Part> parts_;
  std::array<size_t, 2> near_ = {};
  int32_t newest_ = -1;
};

class Hazards {
 public:
  // What one of `lane` that touches this has to come after, of those that were noted and are not
  // `known`.
  Latest before(std::span<const Touch> touches, int lane, const Latest& known = kNothing) const {
    Latest latest = kNothing;
    for (const Touch& touch : touches) {
      for (int other = 0; other < kLanes; ++other) {
        if (!waits(lane, other)) continue;
        const Use& use = uses_[touch.place][other];
        int32_t& last = latest[other];
        last = std::max(last, use.writes.latest(touch.begin, touch.end, known[other]));
        if (!touch.write) continue;
        last = std::max(last, use.reads.latest(touch.begin, touch.end, known[other]));
      }
    }
    return latest;
  }

  void note(std::span<const Touch> touches, int lane, int32_t number) {
    for (const Touch& touch : touches) {
      Use& own = uses_[touch.place][lane];
      if (!touch.write) {
        own.reads.add_read(touch.begin, touch.end, number);
        continue;
      }
      for (Use& use : uses_[touch.place]) {
        use.reads.drop_inside(touch.begin, touch.end);
        if (&use != &own) use.writes.drop_inside(touch.begin, touch.end);
      }
      own.writes.add_write(touch.begin, touch.end, number);
    }
  }

 private:
  struct Use {
    Parts reads, writes;
  };

  std::array<std::array<Use, kLanes>, kPlaces> uses_;
};

}  // namespace lw::npu_build
