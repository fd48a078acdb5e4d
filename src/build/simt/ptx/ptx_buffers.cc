#include "src/build/simt/ptx/ptx_buffers.h"

#include <algorithm>

#include "absl/status/statusor.h"
#include "schedules/targets/matrix_shape.h"
#include "src/base/message.h"
#include "src/build/simt/ptx/ptx_entry.h"
#include "src/build/simt/ptx/ptx_memory.h"
#include "src/kernel/blocks.h"
#include "src/kernel/ops.h"

namespace lw {
namespace {

using Parameter = SimtProgram::Parameter;

// What cuTensorMapEncodeTiled asks (the driver API's manual).
constexpr int kMostDimensions = 5;
constexpr int64_t kMostBox = 256, kMapUnit = 16, kMostStride = int64_t{1} << 40;
constexpr int64_t kMostSize = int64_t{1} << 32;

// A multiple of so many bytes, whatever its variables are.
bool is_multiple(const Affine& index, int64_t size, int64_t more, int64_t bytes) {
  bool whole = (index.constant * size + more) % bytes == 0;
  for (const Affine::Term& term : index.terms) {
    whole = whole && term.coefficient * size % bytes == 0;
  }
  return whole;
}

// What describes to the engine the tensor and the box of a kBoxCopy (PTX ISA, 9.7.9.27).
// kInvalidArgument: it has no such copies.
absl::StatusOr<SimtProgram::TensorMap> tensor_map_of(const Kernel& kernel, const Block& box) {
  const auto refused = [](std::string_view what) {
    return absl::InvalidArgumentError(concat("PTX: ", what));
  };
  const Buffer &to = kernel.buffers[box.dst.buffer], &from = kernel.buffers[box.srcs[0].buffer];
  const int64_t size = size_of(to.type);
  const int dims = static_cast<int>(box.extents.size());
  if (dims > kMostDimensions) return refused("a box of more than 5 dimensions");
  SimtProgram::TensorMap map;
  map.element_bytes = static_cast<int>(size);
  map.offset = unclipped_source(box).index.constant * size;
  if (from.scope == Scope::kPacked) map.offset += from.offset;
  map.swizzled = to.swizzled;
  int64_t dense = 1;                       // what is before in the group's memory
  for (int d = dims - 1; d >= 0; --d) {
    const int64_t extent = box.extents[d], stride = box.srcs[0].strides[d] * size;
    if (extent > 1 && box.dst.strides[d] != dense) return refused("a box that is not dense");
    dense *= extent;
    if (extent > kMostBox || box.clips[d].size > kMostSize) return refused("too large a box");
    map.sizes.push_back(box.clips[d].size);
    map.box.push_back(extent);
    if (d == dims - 1) {
      if (stride != size) return refused("a box of elements that are apart");
      continue;
    }
    if (stride % kMapUnit != 0 || stride < 0 || stride >= kMostStride) {
      return refused("a box of rows that are no multiple of 16 bytes apart");
    }
    map.strides.push_back(stride);
  }
  const int64_t row = map.box[0] * size;
  if (row % kMapUnit != 0 || (map.swizzled && row != kWideRowBytes)) {
    return refused("a box of other rows than of 128 bytes");
  }
  const int64_t begins = map.swizzled ? kSwizzle : 128;
  if (map.offset % kMapUnit != 0 || !is_multiple(box.dst.index, size, to.offset, begins)) {
    return refused("a box that is not aligned");
  }
  return map;
}

// Of all that one copy brings.
int64_t box_bytes(const SimtProgram::TensorMap& map) {
  int64_t bytes = map.element_bytes;
  for (const int64_t extent : map.box) bytes *= extent;
  return bytes;
}

}  // namespace

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
  const Buffer& from = kernel_.buffers[box.srcs[0].buffer];
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
