// What stages evaluate and read, seen through inlined producers.
#include <algorithm>

#include "schedules/nest.h"
#include "src/base/check.h"

namespace lw {
namespace {

bool inlined(const Nest& nest, int tensor) {
  const int stage = stage_of_tensor(nest, tensor);
  return stage >= 0 && nest.stages[stage].place == Place::kInlined;
}

bool reads_inlined(const Nest& nest, const Expr& body) {
  bool found = false;
  visit(body, [&](const ExprNode& e) {
    found = found || (e.op == ExprOp::kRead && inlined(nest, e.index));
  });
  return found;
}

Expr expand(const Nest& nest, const Expr& e);

// The value of an inlined tensor at `indices`.
Expr inlined_value(const Nest& nest, int tensor, std::vector<Expr> indices) {
  const Tensor& producer = nest.program->tensors[tensor];
  // Only a nest whose checks are off inlines a reduction; its axes must still have a value.
  indices.resize(producer.axes.size() + producer.reduce_axes.size(), make_int(Type::kI64, 0));
  return substitute(expand(nest, producer.body), indices);
}

// Inside the shape of the tensor, what padding decides by.
Expr in_bounds(const Tensor& tensor, const std::vector<Expr>& indices) {
  Expr all = make_int(Type::kBool, 1);
  for (size_t d = 0; d < indices.size(); ++d) {
    const Expr zero = make_int(Type::kI64, 0), end = make_int(Type::kI64, tensor.shape[d]);
    if (indices[d]->op == ExprOp::kConst) {
      const bool inside = indices[d]->integer >= 0 && indices[d]->integer < tensor.shape[d];
      all = make_binary(ExprOp::kAnd, all, make_int(Type::kBool, inside));
      continue;
    }
    all = make_binary(ExprOp::kAnd, all, make_binary(ExprOp::kGe, indices[d], zero));
    all = make_binary(ExprOp::kAnd, all, make_binary(ExprOp::kLt, indices[d], end));
  }
  return all;
}

Expr expand(const Nest& nest, const Expr& e) {
  if (e->args.empty()) {
    return e->op == ExprOp::kRead && inlined(nest, e->index) ? inlined_value(nest, e->index, {})
                                                             : e;
  }
  if (e->op == ExprOp::kPad && inlined(nest, e->args[0]->index)) {
    const Expr read = e->args[0];
    std::vector<Expr> indices;
    for (const Expr& index : read->args) indices.push_back(expand(nest, index));
    return make_select(in_bounds(nest.program->tensors[read->index], indices),
                       inlined_value(nest, read->index, indices), expand(nest, e->args[1]));
  }
  std::vector<Expr> args;
  args.reserve(e->args.size());
  bool changed = false;
  for (const Expr& arg : e->args) {
    args.push_back(expand(nest, arg));
    changed = changed || args.back() != arg;
  }
  if (e->op == ExprOp::kRead && inlined(nest, e->index)) {
    return inlined_value(nest, e->index, std::move(args));
  }
  if (!changed) return e;
  switch (e->op) {
    case ExprOp::kRead: return make_read(e->index, e->type, std::move(args));
    case ExprOp::kPad: return make_pad(args[0], args[1]);
    case ExprOp::kSelect: return make_select(args[0], args[1], args[2]);
    case ExprOp::kCast: return make_cast(e->type, args[0]);
    default:
      return is_binary(e->op) ? make_binary(e->op, args[0], args[1]) : make_unary(e->op, args[0]);
  }
}

void add_reads(const Nest& nest, const Expr& body, std::vector<int>& reads) {
  visit(body, [&](const ExprNode& e) {
    if (e.op != ExprOp::kRead) return;
    if (inlined(nest, e.index)) {
      add_reads(nest, nest.program->tensors[e.index].body, reads);
    } else if (std::find(reads.begin(), reads.end(), e.index) == reads.end()) {
      reads.push_back(e.index);
    }
  });
}

bool compares_indices(const ExprNode& e) {
  return e.op >= ExprOp::kEq && e.op <= ExprOp::kGe && e.args[0]->type == Type::kI64;
}

// Bytes of the widest value in registers; addresses and what is decided by axes do not count.
int widest(const Nest& nest, const Expr& e) {
  if (compares_indices(*e)) return 1;
  int bytes = size_of(e->type);
  if (e->type == Type::kF16 || e->type == Type::kBF16) bytes = 4;  // held as f32
  if (e->op == ExprOp::kRead) {
    if (!inlined(nest, e->index)) return bytes;
    return std::max(bytes, widest(nest, nest.program->tensors[e->index].body));
  }
  for (const Expr& arg : e->args) bytes = std::max(bytes, widest(nest, arg));
  return bytes;
}

}  // namespace

Expr effective_body(const Nest& nest, int stage) {
  const Stage& s = nest.stages[stage];
  const Tensor& tensor = nest.program->tensors[s.tensor];
  if (s.copy_of >= 0) {
    std::vector<Expr> indices;
    for (size_t d = 0; d < tensor.shape.size(); ++d)
      indices.push_back(make_axis(static_cast<int>(d)));
    return make_read(s.copy_of, tensor.type, std::move(indices));
  }
  return reads_inlined(nest, tensor.body) ? expand(nest, tensor.body) : tensor.body;
}

std::vector<int> body_reads(const Nest& nest, int stage) {
  const Stage& s = nest.stages[stage];
  if (s.copy_of >= 0) return {s.copy_of};
  std::vector<int> reads;
  add_reads(nest, nest.program->tensors[s.tensor].body, reads);
  return reads;
}

std::vector<int> stage_reads(const Nest& nest, int stage) {
  std::vector<int> reads = body_reads(nest, stage);
  const Stage& s = nest.stages[stage];
  std::vector<int> fused = {s.tensor};
  for (int e : s.epilogue) {
    for (int tensor : body_reads(nest, e)) {
      const bool own = std::find(fused.begin(), fused.end(), tensor) != fused.end();
      const bool known = std::find(reads.begin(), reads.end(), tensor) != reads.end();
      if (!own && !known) reads.push_back(tensor);
    }
    fused.push_back(nest.stages[e].tensor);
  }
  return reads;
}

std::vector<int> readers(const Nest& nest, int tensor) {
  std::vector<int> result;
  for (int s = 0; s < static_cast<int>(nest.stages.size()); ++s) {
    const Stage& stage = nest.stages[s];
    if (stage.place == Place::kInlined) continue;
    const auto serves = [&](const Stage::Copy& copy) { return copy.tensor == tensor; };
    if (std::any_of(stage.copies.begin(), stage.copies.end(), serves)) continue;
    const std::vector<int> reads = body_reads(nest, s);
    if (std::find(reads.begin(), reads.end(), tensor) != reads.end()) result.push_back(s);
  }
  return result;
}

int stage_lanes(const Nest& nest, int stage) {
  const Tensor& tensor = nest.program->tensors[nest.stages[stage].tensor];
  int bytes = size_of(tensor.type);
  if (nest.stages[stage].copy_of >= 0) {
    // Groups are stored as whole vectors.
    if (nest.stages[stage].wide) bytes = size_of(Type::kF32);
    if (nest.stages[stage].group > 0) bytes *= static_cast<int>(nest.stages[stage].group);
  } else {
    if (tensor.type == Type::kF16 || tensor.type == Type::kBF16) bytes = 4;
    bytes = std::max(bytes, widest(nest, tensor.body));
  }
  return std::max(1, nest.target->vector_bytes / bytes);
}

}  // namespace lw
