// The last instruction that touched each granule of an area, however large the area: pages that
// nobody touched are not there, those that one access covers are one number. Memory: 16 bytes a
// page of 4,096 granules, which the system makes where something near is touched, and 4 bytes a
// granule of pages that several accesses share. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

namespace lw::npu {

class Shadow {
 public:
  // Everything is 0.
  explicit Shadow(int64_t granules)
      : pages_(static_cast<Page*>(std::calloc((granules >> kPageBits) + 1, sizeof(Page))),
               std::free) {
    if (pages_ == nullptr) throw std::bad_alloc();
  }

  uint32_t at(int64_t granule) const {
    const Page& page = pages_.get()[granule >> kPageBits];
    return page.each == nullptr ? page.all : page.each[granule & kPageMask];
  }

  // The largest of [begin, end). REQUIRES: begin < end.
  uint32_t latest(int64_t begin, int64_t end) const {
    uint32_t most = 0;
    for (int64_t stop; begin < end; begin = stop) {
      stop = std::min(end, (begin | kPageMask) + 1);
      const Page& page = pages_.get()[begin >> kPageBits];
      if (page.each == nullptr) {
        most = std::max(most, page.all);
        continue;
      }
      // In a form that compilers make vectors of.
      const uint32_t* const values = page.each + (begin & kPageMask);
      const int64_t count = stop - begin;
      for (int64_t i = 0; i < count; ++i) most = std::max(most, values[i]);
    }
    return most;
  }

  // REQUIRES: begin < end.
  void fill(int64_t begin, int64_t end, uint32_t value) {
    for (int64_t stop; begin < end; begin = stop) {
      stop = std::min(end, (begin | kPageMask) + 1);
      Page& page = pages_.get()[begin >> kPageBits];
      if (stop - begin == kPage) {
        release(&page);
        page.all = value;
        continue;
      }
      if (page.each == nullptr) share(&page);
      std::fill_n(page.each + (begin & kPageMask), stop - begin, value);
    }
  }

 private:
  static constexpr int kPageBits = 12;
  static constexpr int64_t kPage = int64_t{1} << kPageBits, kPageMask = kPage - 1;

  struct Page {
    uint32_t* each;                        // of `arrays_`; null: `all` is of all granules
    uint32_t all;
    uint32_t array;                        // its place there
  };

  void share(Page* page) {
    if (idle_.empty()) {
      idle_.push_back(static_cast<uint32_t>(arrays_.size()));
      arrays_.emplace_back(new uint32_t[kPage]);
    }
    page->array = idle_.back();
    idle_.pop_back();
    page->each = arrays_[page->array].get();
    std::fill_n(page->each, kPage, page->all);
  }
  void release(Page* page) {
    if (page->each == nullptr) return;
    idle_.push_back(page->array);
    page->each = nullptr;
  }

  const std::unique_ptr<Page, decltype(&std::free)> pages_;
  std::vector<std::unique_ptr<uint32_t[]>> arrays_;
  std::vector<uint32_t> idle_;             // of `arrays_`
};

}  // namespace lw::npu
