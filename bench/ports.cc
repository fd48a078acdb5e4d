#include "bench/ports.h"

#include <algorithm>

#include "src/expr/interpret.h"

namespace lw {
namespace {

// How often an addition of the body, or the reduction's, takes a product: one instruction.
int64_t fused(const Tensor& tensor) {
  int64_t count = tensor.reduce == Reduce::kSum && tensor.body->op == ExprOp::kMul;
  visit(tensor.body, [&](const ExprNode& node) {
    const bool adds = node.op == ExprOp::kAdd || node.op == ExprOp::kSub;
    const auto product = [](const Expr& e) { return e->op == ExprOp::kMul; };
    count += adds && is_float(node.type) &&
             std::any_of(node.args.begin(), node.args.end(), product);
  });
  return count;
}

double points(const Tensor& tensor) {
  double count = static_cast<double>(elements(tensor));
  for (const Axis& axis : tensor.reduce_axes) count *= static_cast<double>(axis.extent);
  return count;
}

}  // namespace

double ports_us(const Program& program, double peak_gflops) {
  double pairs = 0;
  for (const Tensor& tensor : program.tensors)
    if (tensor.role != Role::kInput) pairs += points(tensor) * static_cast<double>(fused(tensor));
  const Flops flops = count_flops(program);
  if (flops.counted <= 0) return 0;
  const double instructions = (flops.counted - pairs) * flops.useful / flops.counted;
  return instructions / (peak_gflops / 2) / 1e3;
}

}  // namespace lw
