// Buffers of an NPU's memories, and blocks on them, as a kernel gets them from a stage's lowering.
// Internal to src/lower/npu.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "schedules/nest.h"
#include "src/base/message.h"
#include "src/kernel/kernel.h"

namespace lw::lowering {

class BlockWriter {
 protected:
  // `owner` names what the buffers belong to; at most so many statements. `spm`, `acc`: bytes of
  // the memories that are in use.
  BlockWriter(std::string owner, int64_t most, Kernel& kernel, int64_t* spm, int64_t* acc)
      : kernel_(kernel), owner_(std::move(owner)), most_(most), ends_{spm, acc} {}

  int add_managed(const std::string& name, Type type, int memory, int64_t elements,
                  int64_t offset) {
    Buffer buffer;
    buffer.name = concat(owner_, ".", name);
    buffer.type = type;
    buffer.elements = elements;
    buffer.scope = Scope::kManaged;
    buffer.memory = memory;
    buffer.offset = offset;
    return add_buffer(std::move(buffer));
  }
  int add_buffer(Buffer buffer) {
    kernel_.buffers.push_back(std::move(buffer));
    return static_cast<int>(kernel_.buffers.size()) - 1;
  }
  // Where `bytes` of a memory begin that nobody else has.
  int64_t take(int memory, int64_t bytes) {
    return std::exchange(*ends_[memory], *ends_[memory] + bytes);
  }
  int add_scratch(Type type, int64_t elements) {
    Buffer buffer;
    buffer.name = owner_ + ".scratch";
    buffer.type = type;
    buffer.elements = elements;
    buffer.scope = Scope::kWorkspace;
    buffer.offset = kernel_.workspace_bytes;
    kernel_.workspace_bytes += aligned_bytes(elements * size_of(type));
    return add_buffer(std::move(buffer));
  }

  void add(Stmt statement, std::vector<Stmt>& out) {
    if (++statements_ > most_ && failure_.ok()) {
      failure_ = infeasible(concat("more than ", most_, " statements"));
    }
    out.push_back(std::move(statement));
  }
  void add(Block block, std::vector<Stmt>& out) {
    Stmt statement;
    statement.kind = Stmt::Kind::kBlock;
    statement.block = std::make_shared<const Block>(std::move(block));
    add(std::move(statement), out);
  }

  template <class Strides>
  static View view(int buffer, Affine index, const Strides& strides) {
    View view;
    view.buffer = buffer;
    view.index = std::move(index);
    view.strides.assign(strides.begin(), strides.end());
    return view;
  }

  static Block block_of(BlockOp op, View dst, std::vector<View> srcs,
                        const std::vector<int64_t>& extents) {
    Block block;
    block.op = op;
    block.dst = std::move(dst);
    for (size_t i = 0; i < srcs.size(); ++i) block.srcs[i] = std::move(srcs[i]);
    block.extents.assign(extents.begin(), extents.end());
    return block;
  }

  Kernel& kernel_;
  absl::Status failure_;                   // the first

 private:
  const std::string owner_;
  const int64_t most_;
  int64_t* const ends_[2];
  int64_t statements_ = 0;
};

}  // namespace lw::lowering
