// What an item stores that goes on its way, until a kLanded covers its set: it is done as late as it
// may be, so that what is touched too early shows. Internal to src/build/interpreter.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "src/build/interpreter/lanes.h"
#include "src/kernel/kernel.h"

namespace lw {

class Sets {
 public:
  struct Element {
    const Stmt* stmt;
    int buffer;
    int64_t index;
    Lane value;
  };

  void add(const Element& element) { sets_.back().push_back(element); }
  void commit() { sets_.emplace_back(); }
  // write(element) for each of all sets but the newest.
  void land(int64_t newest, const auto& write) {
    while (static_cast<int64_t>(sets_.size()) - 1 > newest) {
      for (const Element& element : sets_.front()) write(element);
      sets_.pop_front();
    }
  }
  // Who stored something that is yet on its way; null: nobody.
  const Stmt* outstanding() const {
    for (const std::vector<Element>& set : sets_) {
      if (!set.empty()) return set[0].stmt;
    }
    return nullptr;
  }

 private:
  std::deque<std::vector<Element>> sets_ = {{}};  // the last is not yet committed
};

// visit(index in dst, index in srcs[0] or nothing) for each position of a kCopy's box. `value` gives
// what an Affine is.
void visit_box(const Block& block, const auto& value, const auto& visit) {
  const size_t dims = block.extents.size();
  std::vector<int64_t> firsts(dims, 0), sizes(dims, INT64_MAX), at(dims, 0);
  for (const Clip& clip : block.clips) {
    firsts[clip.dim] = value(clip.first);
    sizes[clip.dim] = clip.size;
  }
  const int64_t to = value(block.dst.index), from = value(block.srcs[0].index);
  for (bool more = true; more;) {
    int64_t reached = to, source = from;
    bool inside = true;
    for (size_t d = 0; d < dims; ++d) {
      reached += at[d] * block.dst.strides[d];
      source += at[d] * block.srcs[0].strides[d];
      inside = inside && firsts[d] + at[d] >= 0 && firsts[d] + at[d] < sizes[d];
    }
    visit(reached, inside ? std::optional<int64_t>(source) : std::nullopt);
    more = false;
    for (size_t d = dims; d-- > 0 && !more;) {
      more = ++at[d] < block.extents[d];
      if (!more) at[d] = 0;
    }
  }
}

}  // namespace lw
