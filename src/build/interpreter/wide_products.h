// Op::kWideProduct of a group, on their way until a kMultiplied: operands are read as late as they may
// be, so that what is written too early shows. Internal to src/build/interpreter.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "schedules/targets/matrix_shape.h"
#include "src/base/check.h"
#include "src/build/interpreter/execute.h"
#include "src/build/interpreter/lanes.h"
#include "src/build/interpreter/matrix_tile.h"
#include "src/expr/scalar.h"
#include "src/kernel/ops.h"

namespace lw {

// The factors of 64 rows and `columns` columns, as doubles: sums of so few products of narrow numbers
// are exact, or as good. a is row-major, b has a row for each k.
class WideTile {
 public:
  static constexpr int64_t kEight = 8;     // columns that are multiplied together

  WideTile(const MatrixShape& shape, int64_t columns)
      : ks_(shape.k), columns_(columns), a_(static_cast<size_t>(kWideRows * shape.k)),
        b_(static_cast<size_t>(columns * shape.k)) {}

  double* a(int64_t row, int64_t k) { return &a_[static_cast<size_t>(row * ks_ + k)]; }
  double* b(int64_t column, int64_t k) { return &b_[static_cast<size_t>(k * columns_ + column)]; }
  // From an element to the next along k, or to that of the next row or column.
  int64_t step_of_a(bool along_k) const { return along_k ? 1 : ks_; }
  int64_t step_of_b(bool along_k) const { return along_k ? columns_ : 1; }

  // What eight results of a row grow by.
  std::array<double, kEight> products(int64_t row, int64_t eight) {
    std::array<double, kEight> sums = {};
    for (int64_t k = 0; k < ks_; ++k) {
      const double factor = *a(row, k), *others = b(eight * kEight, k);
      for (size_t i = 0; i < kEight; ++i) sums[i] += factor * others[i];
    }
    return sums;
  }

 private:
  const int64_t ks_, columns_;
  std::vector<double> a_, b_;
};

// `Item`: one of the group's (execute.cc), with the same `watch_` as all others, whose values, elements
// of memory and registers are asked for.
template <class Item>
class WideProducts {
 public:
  using Items = std::deque<Item>;

  // `goes_on`: the set of the statement before it.
  void begin(Items& items, const Stmt& s, bool goes_on) {
    watch_ = items[0].watch_;
    if (watch_ != nullptr && watch_->stopped()) return;
    if (!goes_on) ++sets_;
    // Of a in registers the view is of nothing: its index is 0 for all.
    const View &a = s.block->srcs[0], &b = s.block->srcs[1];
    for (size_t first = 0; first < items.size(); first += kWideItems) {
      const Product product = {&s, first, items[first].value(a.index),
                               items[first].value(b.index), sets_};
      for (size_t item = first; item < first + kWideItems; ++item) {
        const int64_t rows = static_cast<int64_t>(item - first) / kMatrixItems *
                             (a.buffer < 0 ? 0 : s.block->extents[0] * a.strides[0]);
        const bool alike = items[item].value(a.index) == product.a + rows &&
                           items[item].value(b.index) == product.b;
        if (alike) continue;
        CHECK(watch_ != nullptr);
        return watch_->diverged(s, static_cast<int64_t>(first), static_cast<int64_t>(item));
      }
      products_.push_back(product);
      touch(product, ExecutionWatch::Way::kBegins);
    }
  }

  // All sets but the newest `most`.
  void finish(Items& items, int64_t most) {
    while (!products_.empty() && products_.front().set <= sets_ - most) {
      const Product product = products_.front();
      products_.pop_front();
      touch(product, ExecutionWatch::Way::kEnds);
      if (watch_ == nullptr || !watch_->stopped()) multiply(items, product);
    }
  }

  // Where the group ends.
  void expect_finished() const {
    if (watch_ != nullptr && !products_.empty()) watch_->never_landed(*products_.front().stmt);
  }

 private:
  struct Product {
    const Stmt* stmt;
    size_t first;                          // item
    int64_t a, b;                          // what the factors' indices are for it
    int64_t set;
  };

  // Elements that follow each other along k, or from row to row (of b: from column to column).
  struct Run {
    int64_t row, k, index, count;
    bool along_k;
  };

  // visit(run) for rows x ks elements.
  static void each_run(const Run& first, int64_t rows, int64_t row_stride, int64_t ks,
                       int64_t k_stride, const auto& visit) {
    const bool along_k = k_stride == 1, along_rows = !along_k && row_stride == 1;
    const int64_t row_step = along_rows ? rows : 1, k_step = along_k ? ks : 1;
    for (int64_t row = 0; row < rows; row += row_step) {
      for (int64_t k = 0; k < ks; k += k_step) {
        visit(Run{first.row + row, k, first.index + row * row_stride + k * k_stride,
                  row_step * k_step, along_k});
      }
    }
  }
  static void each_of_a(const Product& product, int64_t sub_group, const auto& visit) {
    const Block& block = *product.stmt->block;
    const auto& strides = block.srcs[0].strides;
    const int64_t row = sub_group * block.extents[0];
    each_run({row, 0, product.a + row * strides[0], 0, false}, block.extents[0], strides[0],
             block.extents[3], strides[3], visit);
  }
  static void each_of_b(const Product& product, const auto& visit) {
    const Block& block = *product.stmt->block;
    const auto& strides = block.srcs[1].strides;
    for (int64_t panel = 0; panel < block.extents[1]; ++panel) {
      each_run({panel * block.extents[2], 0, product.b + panel * strides[1], 0, false},
               block.extents[2], strides[2], block.extents[3], strides[3], visit);
    }
  }

  // Each sub-group reads its own rows, the first the columns for all.
  void touch(const Product& product, ExecutionWatch::Way way) const {
    if (watch_ == nullptr) return;
    const Block& block = *product.stmt->block;
    const auto read = [&](int factor, const Run& run) {
      watch_->access({*product.stmt, block.srcs[factor].buffer, run.index, false, false, way,
                      run.count});
    };
    for (int64_t sub_group = 0; sub_group < kWideSubGroups; ++sub_group) {
      watch_->begin_item(static_cast<int64_t>(product.first) + sub_group * kMatrixItems);
      if (block.srcs[0].buffer >= 0) {
        each_of_a(product, sub_group, [&](const Run& run) { read(0, run); });
      }
      if (sub_group == 0) each_of_b(product, [&](const Run& run) { read(1, run); });
    }
  }

  // Register `number` of the item's, of a.
  static void put_a(const MatrixShape& shape, int64_t item, int64_t number, const Lanes& lanes,
                    WideTile* tile) {
    const PlaceInA place = place_in_a(shape, item, number);
    double* const factors = tile->a(item / kMatrixItems * shape.m + place.row, place.k);
    for (size_t lane = 0; lane < lanes.size(); ++lane) {
      factors[lane] = is_float(shape.a) ? lanes[lane].number
                                        : static_cast<double>(lanes[lane].integer);
    }
  }

  static WideTile tile_of(const Items& items, const Product& product, const MatrixShape& shape) {
    const Block& block = *product.stmt->block;
    const Item& leader = items[product.first];
    WideTile tile(shape, block.extents[1] * block.extents[2]);
    const std::span<const int> of_a = factor_registers(*product.stmt);
    for (int64_t item = 0; !of_a.empty() && item < kWideItems; ++item) {
      const Item& own = items[product.first + static_cast<size_t>(item)];
      for (int64_t r = 0; r < std::ssize(of_a); ++r) {
        put_a(shape, item, r, own.registers_[of_a[static_cast<size_t>(r)]], &tile);
      }
    }
    for (int64_t sub_group = 0; of_a.empty() && sub_group < kWideSubGroups; ++sub_group) {
      each_of_a(product, sub_group, [&](const Run& run) {
        leader.elements(block.srcs[0].buffer, run.index, run.count, tile.a(run.row, run.k),
                        tile.step_of_a(run.along_k));
      });
    }
    each_of_b(product, [&](const Run& run) {
      leader.elements(block.srcs[1].buffer, run.index, run.count, tile.b(run.row, run.k),
                      tile.step_of_b(run.along_k));
    });
    return tile;
  }

  // As the items have the results: schedules/targets/matrix_shape.h.
  static void multiply(Items& items, const Product& product) {
    const Stmt& s = *product.stmt;
    const MatrixShape& shape = *matrix_shape(items[product.first].kernel_, s);
    WideTile tile = tile_of(items, product, shape);
    const std::span<const int> results = written_of_many(s);
    const bool floats = is_float(shape.acc);
    const int64_t halves = shape.halves(), eights = std::ssize(results) / halves;
    for (int64_t row = 0; row < kWideRows; ++row) {
      const int64_t half = row % shape.m / kMatrixRows;
      const int64_t first = row / shape.m * kMatrixItems + row % kMatrixRows * 4;
      std::array<Lanes*, 4> registers;     // of the items that have the row
      for (size_t i = 0; i < registers.size(); ++i) {
        const size_t item = product.first + static_cast<size_t>(first) + i;
        registers[i] = items[item].registers_.data();
      }
      for (int64_t eight = 0; eight < eights; ++eight) {
        const auto sums = tile.products(row, eight);
        const int reg = results[static_cast<size_t>(eight * halves + half)];
        for (size_t i = 0; i < sums.size(); ++i) {
          Lane& acc = registers[i / 2][reg][i % 2];
          if (floats) acc.number = round_to(shape.acc, acc.number + sums[i]);
          else acc.integer = wrap(shape.acc, acc.integer + static_cast<int64_t>(sums[i]));
        }
      }
    }
  }

  ExecutionWatch* watch_ = nullptr;
  std::deque<Product> products_;
  int64_t sets_ = 0;                       // begun
};

}  // namespace lw
