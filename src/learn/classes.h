// Classes of operators that tasks are drawn from. Internal to src/learn.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/base/message.h"
#include "src/base/rng.h"

namespace lw {

// One draw of parameters.
class Draw {
 public:
  explicit Draw(Rng rng) : rng_(rng) {}

  // Log-uniform; every other draw is a multiple of 8 where one fits, as widths of layers are.
  int64_t size(int64_t low, int64_t high) {
    const double ratio = static_cast<double>(high + 1) / static_cast<double>(low);
    int64_t value = static_cast<int64_t>(static_cast<double>(low) * std::pow(ratio, uniform()));
    if (rng_.below(2) == 0 && (value + 4) / 8 * 8 >= low) value = (value + 4) / 8 * 8;
    return std::clamp(value, low, high);
  }
  int64_t one_of(std::vector<int64_t> values) {
    return values[rng_.below(static_cast<int64_t>(values.size()))];
  }
  template <class Value>
  Value choose(const std::vector<Value>& values) {
    return values[rng_.below(static_cast<int64_t>(values.size()))];
  }
  double uniform() { return rng_.uniform(); }

 private:
  Rng rng_;
};

using Words = std::vector<std::string>;

inline void add(Words& words, const char* name, int64_t value) {
  words.push_back(concat(name, "=", value));
}

struct OperatorClass {
  const char* kind;
  int share;
  Words (*draw)(Draw& draw);
};

// What NPUs compute: typed products and convolutions, with and without what finishes them; maps,
// reductions and what is made of both.
std::span<const OperatorClass> npu_classes();

}  // namespace lw
