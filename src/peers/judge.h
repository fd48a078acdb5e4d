// Whether a contender computes the right thing, before anybody times it.
#pragma once

#include <vector>

#include "src/measure/judge/verify.h"
#include "src/peers/interleave.h"

namespace lw {

// The reference at sampled points of one program's outputs, on inputs that are filled already.
class Judge {
 public:
  // `arguments`: one pointer per argument of the program, in order; `points` of each output, as far
  // as a few seconds of the reference go. REQUIRES: program and arguments outlive the judge.
  Judge(const Program& program, void* const* arguments, int64_t points);
  // Poisons the outputs, runs the contender once and compares.
  Check run(const Contender& contender) const;

 private:
  const Program& program_;
  std::vector<std::byte*> outputs_;
  std::vector<Point> points_;
  std::vector<PointValue> values_;
};

}  // namespace lw
