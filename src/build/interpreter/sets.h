// What an item stores that goes on its way, until a kLanded covers its set: it is done as late as it
// may be, so that what is touched too early shows. Internal to src/build/interpreter.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "src/kernel/kernel.h"

namespace lw {

class Sets {
 public:
  // Elements of a buffer that follow each other, of which `write` gets the bytes.
  struct Run {
    const Stmt* stmt;
    int buffer;
    int64_t index, count;
  };

  void add(const Run& run, const std::byte* values, int64_t bytes) {
    sets_.back().runs.push_back(run);
    sets_.back().values.insert(sets_.back().values.end(), values, values + bytes);
  }
  void commit() { sets_.emplace_back(); }
  // write(run, values) for each of all sets but the newest; it returns how many bytes it took.
  void land(int64_t newest, const auto& write) {
    while (static_cast<int64_t>(sets_.size()) - 1 > newest) {
      const std::byte* values = sets_.front().values.data();
      for (const Run& run : sets_.front().runs) values += write(run, values);
      sets_.pop_front();
    }
  }
  // Who stored something that is yet on its way; null: nobody.
  const Stmt* outstanding() const {
    for (const Set& set : sets_) {
      if (!set.runs.empty()) return set.runs[0].stmt;
    }
    return nullptr;
  }

 private:
  struct Set {
    std::vector<Run> runs;
    std::vector<std::byte> values;
  };

  std::deque<Set> sets_ = {{}};            // the last is not yet committed
};

// visit(index in dst, index in srcs[0] or nothing, count) for the positions of a kCopy's box, as many
// at once as follow each other in both. `value` gives what an Affine is.
void visit_box(const Block& block, const auto& value, const auto& visit) {
  const auto &to = block.dst.strides, &from = block.srcs[0].strides;
  const size_t last = block.extents.size() - 1;
  std::vector<int64_t> begins(last + 1, 0), ends = {block.extents.begin(), block.extents.end()};
  for (const Clip& clip : block.clips) {
    const int64_t first = value(clip.first), extent = block.extents[clip.dim];
    begins[clip.dim] = std::clamp<int64_t>(-first, 0, extent);
    ends[clip.dim] = std::clamp<int64_t>(clip.size - first, begins[clip.dim], extent);
  }
  const int64_t follow = to[last] == 1 && from[last] == 1 ? block.extents[last] : 1;
  std::vector<int64_t> at(last + 1, 0);
  for (bool more = true; more;) {
    int64_t reached = value(block.dst.index), source = value(block.srcs[0].index);
    bool inside = true;
    for (size_t d = 0; d < last; ++d) {
      reached += at[d] * to[d];
      source += at[d] * from[d];
      inside = inside && at[d] >= begins[d] && at[d] < ends[d];
    }
    const int64_t begin = inside ? begins[last] : 0, end = inside ? ends[last] : 0;
    for (int64_t i = 0; i < block.extents[last];) {
      const bool there = i >= begin && i < end;
      const int64_t stop = there ? end : i < begin ? begin : block.extents[last];
      const int64_t count = std::min(follow, stop - i);
      visit(reached + i * to[last],
            there ? std::optional<int64_t>(source + i * from[last]) : std::nullopt, count);
      i += count;
    }
    more = false;
    for (size_t d = last; d-- > 0 && !more;) {
      more = ++at[d] < block.extents[d];
      if (!more) at[d] = 0;
    }
  }
}

}  // namespace lw
