// Op::kWideProduct of a group, on their way until a kMultiplied: operands are read as late as they may
// be, so that what is written too early shows. Internal to src/build/interpreter.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "schedules/targets/matrix_shape.h"
#include "src/base/check.h"
#include "src/build/interpreter/execute.h"
#include "src/build/interpreter/lanes.h"
#include "src/build/interpreter/matrix_tile.h"
#include "src/kernel/ops.h"

namespace lw {

// Op::kWideProduct: the factors of 64 rows and `columns` columns, by which items' registers grow.
class WideTile {
 public:
  WideTile(const MatrixShape& shape, int64_t columns)
      : shape_(shape), a_(static_cast<size_t>(kWideRows * shape.k)),
        b_(static_cast<size_t>(columns * shape.k)) {}
  Lane& a(int64_t row, int64_t k) { return a_[static_cast<size_t>(row * shape_.k + k)]; }
  Lane& b(int64_t column, int64_t k) { return b_[static_cast<size_t>(column * shape_.k + k)]; }

  // Register `number` of the item's.
  void add(int64_t item, int64_t number, Lanes* acc) {
    const int64_t half = number % shape_.halves(), eight = number / shape_.halves();
    const int64_t row = item / kMatrixItems * shape_.m + kMatrixRows * half +
                        item % kMatrixItems / 4;
    for (int64_t lane = 0; lane < 2; ++lane) {
      const int64_t column = eight * shape_.n + item % 4 * 2 + lane;
      add_products(shape_, &a(row, 0), &b(column, 0), 1, &(*acc)[static_cast<size_t>(lane)]);
    }
  }

 private:
  const MatrixShape& shape_;
  std::vector<Lane> a_, b_;
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
    const View &a = s.block->srcs[0], &b = s.block->srcs[1];
    for (size_t first = 0; first < items.size(); first += kWideItems) {
      const Product product = {&s, first, items[first].value(a.index),
                               items[first].value(b.index), sets_};
      for (size_t item = first; item < first + kWideItems; ++item) {
        const int64_t rows = static_cast<int64_t>(item - first) / kMatrixItems *
                             s.block->extents[0] * a.strides[0];
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

  // visit(row, k, index); visit(column, k, index).
  static void each_of_a(const Product& product, int64_t sub_group, const auto& visit) {
    const Block& block = *product.stmt->block;
    const auto& strides = block.srcs[0].strides;
    for (int64_t r = 0; r < block.extents[0]; ++r) {
      const int64_t row = sub_group * block.extents[0] + r;
      for (int64_t k = 0; k < block.extents[3]; ++k) {
        visit(row, k, product.a + row * strides[0] + k * strides[3]);
      }
    }
  }
  static void each_of_b(const Product& product, const auto& visit) {
    const Block& block = *product.stmt->block;
    const auto& strides = block.srcs[1].strides;
    for (int64_t n = 0; n < block.extents[1] * block.extents[2]; ++n) {
      const int64_t panel = n / block.extents[2], column = n % block.extents[2];
      for (int64_t k = 0; k < block.extents[3]; ++k) {
        visit(n, k, product.b + panel * strides[1] + column * strides[2] + k * strides[3]);
      }
    }
  }

  // Each sub-group reads its own rows, the first the columns for all.
  void touch(const Product& product, ExecutionWatch::Way way) const {
    if (watch_ == nullptr) return;
    const Block& block = *product.stmt->block;
    const auto read = [&](int factor, int64_t index) {
      watch_->access({*product.stmt, block.srcs[factor].buffer, index, false, false, way});
    };
    for (int64_t sub_group = 0; sub_group < kWideSubGroups; ++sub_group) {
      watch_->begin_item(static_cast<int64_t>(product.first) + sub_group * kMatrixItems);
      each_of_a(product, sub_group, [&](int64_t, int64_t, int64_t at) { read(0, at); });
      if (sub_group == 0) {
        each_of_b(product, [&](int64_t, int64_t, int64_t at) { read(1, at); });
      }
    }
  }

  static void multiply(Items& items, const Product& product) {
    const Stmt& s = *product.stmt;
    const Block& block = *s.block;
    const Item& leader = items[product.first];
    WideTile tile(*matrix_shape(leader.kernel_, s), block.extents[1] * block.extents[2]);
    for (int64_t sub_group = 0; sub_group < kWideSubGroups; ++sub_group) {
      each_of_a(product, sub_group, [&](int64_t row, int64_t k, int64_t at) {
        tile.a(row, k) = leader.element(block.srcs[0].buffer, at);
      });
    }
    each_of_b(product, [&](int64_t column, int64_t k, int64_t at) {
      tile.b(column, k) = leader.element(block.srcs[1].buffer, at);
    });
    for (int64_t item = 0; item < kWideItems; ++item) {
      Item& own = items[product.first + static_cast<size_t>(item)];
      for (size_t r = 0; r < s.many.size(); ++r) {
        tile.add(item, static_cast<int64_t>(r), &own.registers_[s.many[r]]);
      }
    }
  }

  ExecutionWatch* watch_ = nullptr;
  std::deque<Product> products_;
  int64_t sets_ = 0;                       // begun
};

}  // namespace lw
