#include "src/base/check.h"
#include "src/build/npu/unroller.h"
#include "src/expr/scalar.h"

namespace lw {

NpuLayout npu_layout(const Kernel& kernel) {
  constexpr int64_t kPage = 4096;
  const auto pages = [](int64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; };
  NpuLayout layout;
  layout.arguments.resize(static_cast<size_t>(kernel.arguments));
  for (const Buffer& buffer : kernel.buffers) {
    if (buffer.scope != Scope::kArgument) continue;
    layout.arguments[static_cast<size_t>(buffer.slot)] = layout.bytes;
    layout.bytes += pages(buffer.elements * size_of(buffer.type));
  }
  layout.workspace = layout.bytes;
  layout.bytes += pages(kernel.workspace_bytes);
  return layout;
}

namespace npu_build {

Unroller::Unroller(const Kernel& kernel, const npu::Config& config, int64_t most)
    : kernel_(kernel),
      config_(config),
      most_(most),
      layout_(npu_layout(kernel)),
      variables_(static_cast<size_t>(kernel.variables)),
      versions_(kernel.buffers.size()) {
  // Of DRAM only what is both written and read can be touched too early.
  shared_.resize(kernel.buffers.size());
  std::vector<bool> read(shared_.size()), written(shared_.size());
  find_touched(kernel.body, read, written);
  for (size_t b = 0; b < shared_.size(); ++b) shared_[b] = read[b] && written[b];
  operations_.reserve(blocks(kernel.body));  // as many instructions or up to twice
}

int64_t Unroller::blocks(const std::vector<Stmt>& list) const {
  int64_t count = 0;
  for (const Stmt& s : list) {
    const int64_t inside = std::max(blocks(s.body), blocks(s.otherwise));
    const int64_t times = s.kind == Stmt::Kind::kFor ? std::min(s.count, most_) : 1;
    count += s.kind == Stmt::Kind::kBlock ? 1 : times * inside;
    count = std::min(count, most_);
  }
  return count;
}

absl::StatusOr<Operations> Unroller::run() {
  RETURN_IF_ERROR(list(kernel_.body));
  return std::move(operations_);
}

void Unroller::find_touched(const std::vector<Stmt>& list, std::vector<bool>& read,
                            std::vector<bool>& written) {
  for (const Stmt& s : list) {
    find_touched(s.body, read, written);
    find_touched(s.otherwise, read, written);
    if (s.kind != Stmt::Kind::kBlock) continue;
    written[static_cast<size_t>(s.block->dst.buffer)] = true;
    for (const View& view : s.block->srcs) {
      if (view.buffer >= 0) read[static_cast<size_t>(view.buffer)] = true;
    }
  }
}

absl::Status Unroller::list(const std::vector<Stmt>& list) {
  for (const Stmt& s : list) RETURN_IF_ERROR(statement(s));
  return absl::OkStatus();
}

absl::Status Unroller::statement(const Stmt& s) {
  switch (s.kind) {
    case Stmt::Kind::kFor:
      for (int64_t i = 0; i < s.count; ++i) {
        variables_[static_cast<size_t>(s.var)] = i;
        RETURN_IF_ERROR(list(s.body));
      }
      return absl::OkStatus();
    case Stmt::Kind::kIf: {
      const bool holds = std::all_of(s.conditions.begin(), s.conditions.end(),
                                     [&](const Affine& a) { return value(a) >= 0; });
      return list(holds ? s.body : s.otherwise);
    }
    case Stmt::Kind::kInt: return integer(s);
    case Stmt::Kind::kBlock: return block(*s.block);
    case Stmt::Kind::kOp: break;
  }
  return absl::InvalidArgumentError("the NPU has no registers: its kernels are made of blocks");
}

absl::Status Unroller::integer(const Stmt& s) {
  int64_t& variable = variables_[static_cast<size_t>(s.var)];
  switch (s.int_op) {
    case Stmt::IntOp::kAffine: variable = value(s.a); break;
    case Stmt::IntOp::kDiv: variable = floor_div(value(s.a), s.divisor); break;
    case Stmt::IntOp::kMod: variable = floor_mod(value(s.a), s.divisor); break;
    case Stmt::IntOp::kMin: variable = std::min(value(s.a), value(s.b)); break;
    case Stmt::IntOp::kMax: variable = std::max(value(s.a), value(s.b)); break;
    case Stmt::IntOp::kRegister: case Stmt::IntOp::kItem:
      return absl::InvalidArgumentError("the NPU computes no addresses from data");
  }
  return absl::OkStatus();
}

int64_t Unroller::value(const Affine& a) const {
  int64_t sum = a.constant;
  for (const Affine::Term& term : a.terms) {
    sum += term.coefficient * variables_[static_cast<size_t>(term.var)];
  }
  return sum;
}

std::vector<Dim> Unroller::dims_of(const Block& block) const {
  std::vector<Dim> dims;
  for (size_t d = 0; d < block.extents.size(); ++d) {
    if (block.extents[d] == 1) continue;
    const auto stride = [&](const View& view) { return view.buffer < 0 ? 0 : view.strides[d]; };
    dims.push_back(
        {block.extents[d], stride(block.dst), stride(block.srcs[0]), stride(block.srcs[1])});
  }
  return dims;
}

absl::Status Unroller::block(const Block& block) {
  switch (block.op) {
    case BlockOp::kCopy: return copy(block);
    case BlockOp::kFill: return fill(block);
    case BlockOp::kProduct: return product(block);
    case BlockOp::kUnary:
    case BlockOp::kBinary:
    case BlockOp::kScalar: return compute(block);
    case BlockOp::kReduce: return reduce(block);
    case BlockOp::kRequantise: return requantise(block);
  }
  return no_instruction("an operation of a later version");
}

absl::StatusOr<Operations> unroll(const Kernel& kernel, const npu::Config& config, int64_t most) {
  return Unroller(kernel, config, most).run();
}

}  // namespace npu_build
}  // namespace lw
