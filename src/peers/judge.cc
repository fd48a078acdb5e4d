#include "src/peers/judge.h"

#include <cstring>

#include "loopwright/program.h"
#include "src/base/clock.h"
#include "src/measure/run/guarded.h"

namespace lw {
namespace {

constexpr uint64_t kSeed = 1;
constexpr double kOracleSeconds = 5;
constexpr int64_t kMostPoints = 4;         // times what was asked for: corners and edges come on
                                           // top

}  // namespace

Judge::Judge(const Program& program, void* const* arguments, int64_t points)
    : program_(program), points_(choose_points(program, points, kSeed)) {
  std::vector<const std::byte*> inputs;
  for (int t : lw::arguments(program)) {
    std::byte* data = static_cast<std::byte*>(*arguments++);
    if (program.tensors[t].role == Role::kInput) inputs.push_back(data);
    else outputs_.push_back(data);
  }
  if (static_cast<int64_t>(points_.size()) > kMostPoints * points)
    points_.resize(kMostPoints * points);
  values_.resize(points_.size());
  evaluate_points(program, inputs, points_, 0, static_cast<int64_t>(points_.size()),
                  now() + kOracleSeconds, values_.data());
}

Check Judge::run(const Contender& contender) const {
  const std::vector<int> tensors = outputs(program_);
  for (size_t o = 0; o < tensors.size(); ++o) {
    std::memset(outputs_[o], kPoison, static_cast<size_t>(bytes(program_.tensors[tensors[o]])));
  }
  if (contender.select) contender.select();
  contender.run();
  if (contender.finish) contender.finish();
  return check_points(program_, {outputs_.begin(), outputs_.end()}, points_, values_.data());
}

}  // namespace lw
