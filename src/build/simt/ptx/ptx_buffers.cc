#include "src/build/simt/ptx/ptx_buffers.h"

#include <algorithm>

#include "src/base/message.h"
#include "src/build/simt/ptx/ptx_boxes.h"
#include "src/build/simt/ptx/ptx_entry.h"
#include "src/build/simt/ptx/ptx_memory.h"
#include "src/kernel/ops.h"

namespace lw {

using Parameter = SimtProgram::Parameter;

void PtxBuffers::find_used(const std::vector<Stmt>& list) {
  for (const Stmt& s : list) {
    if (s.kind == Stmt::Kind::kInt || s.kind == Stmt::Kind::kFor) clusters_.define(s);
    if (const Block* box = box_of(s); box != nullptr) {
      used_.insert(box->dst.buffer);
      find_map(s);
    } else {
      visit_buffers(s, [this](int buffer, bool write) {
        used_.insert(buffer);
        if (write) written_.insert(buffer);
      });
    }
    find_used(s.body);
    find_used(s.otherwise);
  }
}

// Of a box that is alike for all groups of a cluster each copies a slice, of its outermost extent, for
// all.
void PtxBuffers::find_map(const Stmt& copy) {
  const Block& box = *copy.block;
  absl::StatusOr<SimtProgram::TensorMap> map = tensor_map_of(kernel_, box);
  if (!map.ok()) {
    refused_.Update(map.status());
    return;
  }
  Copied& copied = copies_[&copy];
  copied.bytes = box_bytes(*map);
  const bool apart = std::any_of(box.clips.begin(), box.clips.end(), [this](const Clip& clip) {
    return clusters_.differ(clip.first);
  });
  const auto several = [](int64_t extent) { return extent > 1; };
  const auto outermost = std::find_if(box.extents.begin(), box.extents.end(), several);
  const int64_t unit = cluster_ * (map->swizzled ? kSwizzle : 128);
  if (cluster_ > 1 && !apart && outermost != box.extents.end() && *outermost % cluster_ == 0 &&
      copied.bytes % unit == 0) {
    copied.slices = cluster_;
    copied.dim = static_cast<int>(outermost - box.extents.begin());
    map->box[box.extents.size() - 1 - static_cast<size_t>(copied.dim)] /= cluster_;
    shares_ = true;
  }
  const Buffer& from = kernel_.buffers[copy.block->srcs[0].buffer];
  const bool packed = from.scope == Scope::kPacked;
  const Parameter parameter = {packed ? Parameter::Kind::kPacked : Parameter::Kind::kArgument,
                               packed ? 0 : from.slot, *map};
  const auto known = std::find(maps_.begin(), maps_.end(), parameter);
  copied.map = static_cast<size_t>(known - maps_.begin());
  if (known == maps_.end()) maps_.push_back(parameter);
}

PtxBuffers::Box PtxBuffers::box(const Stmt& copy) {
  const Copied& copied = copies_.at(&copy);
  return {map_starts_[copied.map], copied.bytes,
          linear_place(copy.block->dst.buffer, copy.block->dst.index), copied.slices, copied.dim};
}

std::string PtxBuffers::parameters(const std::vector<Stmt>& body, const Stmt* grid,
                                   SimtProgram::Launch* launch) {
  if (grid != nullptr) {
    cluster_ = grid->cluster;
    clusters_.define(*grid);
  }
  find_used(body);
  std::string text, workspace, packed, shared;
  const auto add = [&](Parameter parameter) {
    const size_t number = launch->parameters.size();
    launch->parameters.push_back(parameter);
    text += concat(number == 0 ? "" : ", ", ".param .u64 p", number);
    const std::string pointer = code_.wide(), global = code_.wide();
    code_.line("ld.param.u64 ", pointer, ", [p", number, "]");
    code_.line("cvta.to.global.u64 ", global, ", ", pointer);
    return global;
  };
  for (const int b : used_) {
    const Buffer& buffer = kernel_.buffers[b];
    switch (buffer.scope) {
      case Scope::kArgument:
        starts_[b] = add({Parameter::Kind::kArgument, buffer.slot});
        break;
      case Scope::kWorkspace:
        if (workspace.empty()) workspace = add({Parameter::Kind::kWorkspace, 0});
        starts_[b] = workspace;
        break;
      case Scope::kPacked:
        if (packed.empty()) packed = add({Parameter::Kind::kPacked, 0});
        starts_[b] = packed;
        break;
      case Scope::kPrivate: starts_[b] = begin_own(b); break;
      case Scope::kManaged:
        if (shared.empty()) {
          shared = code_.word();
          code_.line("mov.u32 ", shared, ", ", kPtxShared);
        }
        starts_[b] = shared;
        launch->local_bytes = std::max(
            launch->local_bytes,
            aligned_bytes(buffer.offset + buffer.elements * size_of(buffer.type)));
        break;
    }
  }
  for (const Parameter& map : maps_) {
    const size_t number = launch->parameters.size();
    launch->parameters.push_back(map);
    text += concat(number == 0 ? "" : ", ", ".param .align 64 .b8 p", number, "[128]");
    const std::string place = code_.wide(), generic = code_.wide();
    code_.line("mov.b64 ", place, ", p", number);
    code_.line("cvta.param.u64 ", generic, ", ", place);
    map_starts_.push_back(generic);
  }
  return text;
}

std::string PtxBuffers::begin_own(int b) {
  const Buffer& buffer = kernel_.buffers[b];
  const std::string name = concat("own", b), start = code_.wide();
  own_memory_ += concat("  .local .align 16 .b8 ", name, "[",
                        std::max<int64_t>(1, buffer.elements * size_of(buffer.type)), "];\n");
  code_.line("mov.u64 ", start, ", ", name);
  return start;
}

std::string_view PtxBuffers::space_of(int b, bool loads) const {
  switch (kernel_.buffers[b].scope) {
    case Scope::kPrivate: return "local";
    case Scope::kManaged: return kPtxSharedSpace;
    case Scope::kArgument: case Scope::kPacked:
      return loads && written_.count(b) == 0 ? kPtxConstantSpace : "global";
    default: return "global";
  }
}

PtxPlace PtxBuffers::linear_place(int b, const Affine& index) {
  const Buffer& buffer = kernel_.buffers[b];
  const bool wide = buffer.scope != Scope::kManaged;
  PtxPlace place = addresses_.place(starts_[b], wide, index, size_of(buffer.type));
  const bool within = buffer.scope != Scope::kArgument && buffer.scope != Scope::kPrivate;
  if (within) place.bytes += buffer.offset;
  return place;
}

PtxPlace PtxBuffers::place(int b, const Affine& index) {
  const Buffer& buffer = kernel_.buffers[b];
  if (!buffer.swizzled) return linear_place(b, index);
  return addresses_.swizzled_place(starts_[b], buffer.offset, index, size_of(buffer.type));
}

}  // namespace lw
