// The last instruction that touched each granule of an area, however large the area: pages that
// nobody touched are not there, those that one access covers are one number. Memory: 16 bytes a
// page of 4,096 granules in groups that were touched, and 4 bytes a granule of pages that several
// accesses share. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

namespace lw::npu {

class Shadow {
 public:
  // Everything is 0.
  explicit Shadow(int64_t granules) : groups_((granules >> (kPageBits + kGroupBits)) + 1) {}

  uint32_t at(int64_t granule) const {
    const Page* const page = find(granule >> kPageBits);
    return page == nullptr ? 0
           : page->each == nullptr ? page->all : page->each[granule & kPageMask];
  }

  // The largest of [begin, end). REQUIRES: begin < end.
  uint32_t latest(int64_t begin, int64_t end) const {
    uint32_t most = 0;
    each_page(begin, end, [&](int64_t number, int64_t from, int64_t to) {
      const Page* const page = find(number);
      if (page == nullptr) return;
      if (page->each == nullptr) {
        most = std::max(most, page->all);
        return;
      }
      // In a form that compilers make vectors of.
      const uint32_t* const last = page->each.get();
      for (; from < to; ++from) most = std::max(most, last[from]);
    });
    return most;
  }

  // REQUIRES: begin < end.
  void fill(int64_t begin, int64_t end, uint32_t value) {
    each_page(begin, end, [&](int64_t number, int64_t from, int64_t to) {
      std::unique_ptr<Page[]>& group = groups_[number >> kGroupBits];
      if (group == nullptr) group = std::make_unique<Page[]>(int64_t{1} << kGroupBits);
      Page& page = group[number & kGroupMask];
      if (to - from == kPage) {
        page.all = value;
        page.each.reset();
        return;
      }
      if (page.each == nullptr) {
        page.each.reset(new uint32_t[kPage]);
        std::fill_n(page.each.get(), kPage, page.all);
      }
      std::fill(page.each.get() + from, page.each.get() + to, value);
    });
  }

 private:
  static constexpr int kPageBits = 12, kGroupBits = 10;
  static constexpr int64_t kPage = int64_t{1} << kPageBits, kPageMask = kPage - 1;
  static constexpr int64_t kGroupMask = (int64_t{1} << kGroupBits) - 1;

  struct Page {
    uint32_t all = 0;                      // of all granules, where `each` is not there
    std::unique_ptr<uint32_t[]> each;
  };

  const Page* find(int64_t number) const {
    const std::unique_ptr<Page[]>& group = groups_[number >> kGroupBits];
    return group == nullptr ? nullptr : &group[number & kGroupMask];
  }
  // visit(page, first and end granule in it).
  template <class Visit>
  static void each_page(int64_t begin, int64_t end, Visit&& visit) {
    while (begin < end) {
      const int64_t number = begin >> kPageBits, start = number << kPageBits;
      const int64_t stop = std::min(end, start + kPage);
      visit(number, begin - start, stop - start);
      begin = stop;
    }
  }

  std::vector<std::unique_ptr<Page[]>> groups_;
};

}  // namespace lw::npu
