// The walk over a kernel's statements, and what each kind of block becomes: copies.cc, packing.cc,
// products.cc, vector.cc.
// Internal to src/build/npu.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "schedules/targets/npu/machine.h"
#include "src/base/message.h"
#include "src/build/npu/operations.h"

namespace lw::npu_build {

absl::StatusOr<npu::Dtype> dtype_of(Type type);
absl::Status no_instruction(const std::string& why);

// An extent of a box and how far apart its positions lie: in dst, in the sources. Of a copy, how
// many positions before and behind have padding.
struct Dim {
  int64_t extent, dst, src0, src1;
  int64_t before = 0, after = 0;

  bool is_padded() const { return before + after > 0; }
};

class Unroller {
 public:
  Unroller(const Kernel& kernel, const npu::Config& config, int64_t most);

  absl::StatusOr<Operations> run();

 private:
  // The walk.
  static void find_touched(const std::vector<Stmt>& list, std::vector<bool>& read,
                           std::vector<bool>& written);
  // How often blocks are met, at most; `most_` for more.
  int64_t blocks(const std::vector<Stmt>& list) const;
  absl::Status list(const std::vector<Stmt>& list);
  absl::Status statement(const Stmt& s);
  absl::Status integer(const Stmt& s);
  int64_t value(const Affine& a) const;

  // Memories.
  const Buffer& buffer(const View& view) const {
    return kernel_.buffers[static_cast<size_t>(view.buffer)];
  }
  bool in_dram(const View& view) const { return buffer(view).scope != Scope::kManaged; }
  bool in_acc(const View& view) const { return !in_dram(view) && buffer(view).memory == kNpuAcc; }
  // Bytes of an element in the units of its memory's addresses: words of ACC.
  int64_t unit(const View& view) const { return in_acc(view) ? 1 : size_of(buffer(view).type); }
  int64_t address(const View& view) const {
    const Buffer& b = buffer(view);
    const int64_t at = value(view.index) * unit(view);
    if (b.scope == Scope::kArgument) return layout_.arguments[static_cast<size_t>(b.slot)] + at;
    if (b.scope == Scope::kWorkspace) return layout_.workspace + b.offset + at;
    return (in_acc(view) ? b.offset / 4 : b.offset) + at;
  }

  // The bytes (words) from the view's first position to its last, of the extents that are not 1.
  void touch(Operation& operation, const View& view, int64_t begin, int64_t length, bool write) {
    if (write) ++versions_[static_cast<size_t>(view.buffer)];
    if (in_dram(view) && !shared_[static_cast<size_t>(view.buffer)]) return;
    const int place = in_dram(view) ? kDram : buffer(view).memory;
    operation.touches.push_back({place, write, begin, begin + length});
  }

  // From the first byte (word) to the last of all positions of the box, in `view`, whose strides
  // are `of` the dimensions.
  int64_t length_of(const View& view, const std::vector<Dim>& dims, int64_t Dim::*of) const {
    int64_t length = unit(view);
    for (const Dim& dim : dims) length += (dim.extent - 1) * dim.*of * unit(view);
    return length;
  }

  absl::Status emit(const Operation& operation) {
    if (operations_.count() >= most_) {
      return absl::InvalidArgumentError(
          concat("the program has more than ", most_, " instructions of the NPU"));
    }
    operations_.add(operation);
    return absl::OkStatus();
  }

  // Blocks: LD and ST, products by MX, the rest by VE.
  std::vector<Dim> dims_of(const Block& block) const;
  absl::Status block(const Block& block);

  // A copy of which further dimensions are loops of instructions.
  absl::Status copy(const Block& block);
  absl::Status copy(const Block& block, std::vector<Dim> dims);
  struct Strip {
    const View &dram, &local;
    npu::Dtype dtype;
    bool loads;
    int64_t run;  // elements
  };
  static constexpr int64_t kMostRun = 65535, kMostRows = 4095;
  static constexpr int64_t kMostPart = 32768;  // bytes of a longer run: aligned everywhere
  static constexpr int64_t kMostPadding = 15;
  absl::Status strips(const Strip& strip, const std::vector<Dim>& dims, const npu::Copy& copy,
                      int64_t dram, int64_t local);
  absl::Status transfer(const Strip& strip, const std::vector<Dim>& dims, npu::Copy copy,
                        int64_t dram, int64_t local);
  static void merge(std::vector<Dim>& dims);

  // Windows that the array's packer puts together.
  absl::Status pack(const Block& block);
  absl::StatusOr<npu::MxCol> window_of(const Block& block) const;

  // Rows of the vector engine's: of dst (0) and the sources, in the units of their memories.
  struct Rows {
    int64_t row, rows;                     // elements of a row; how many
    int64_t at[3] = {}, stride[3] = {}, unit[3] = {};
    int64_t along[3] = {};                 // from element to element of a row: 0 or 1
  };
  using UseRows = std::function<absl::Status(const Rows& rows)>;
  absl::StatusOr<npu::Dtype> vector_type(const View& view) const;
  // `whole`: a row means something as a whole.
  absl::Status rows(const Block& block, std::vector<Dim> dims, const UseRows& use,
                    bool whole = false);
  void touch_rows(Operation& operation, const Block& block, const Rows& rows, int v, bool write);
  absl::Status emit_unary(const Block& block, const Rows& rows, npu::Dtype dtype, npu::UnaryFn fn);
  // VE.UN or VE.RED: dst of srcs[0].
  template <class Body>
  absl::Status emit_of_one(const Block& block, const Rows& rows, npu::Dtype dtype, Body body);
  absl::Status emit_binary(const Block& block, const Rows& rows, npu::Dtype dtype,
                           npu::BinaryFn fn, int first, int second, uint32_t number);
  absl::Status emit_zeros(const Block& block, const Rows& rows, npu::Dtype dtype);
  absl::Status fill(const Block& block);
  absl::Status compute(const Block& block);
  absl::Status reduce(const Block& block);
  absl::Status requantise(const Block& block);
  absl::Status requantised(const Block& block, std::vector<Dim> dims, int64_t first,
                           int64_t columns);
  absl::Status move(const Block& block);

  // The roles of the dimensions: of rows at most two, of columns and of the sum at most one.
  struct Roles {
    Dim m = {1, 0, 0, 0}, m2 = {1, 0, 0, 0}, n = {1, 0, 0, 0}, k = {1, 0, 0, 0};
  };
  // What a product is wherever it lies: a block in a loop is many instructions.
  struct Product {
    npu::Dtype dtype = npu::Dtype::kI8;
    npu::MxLdw weights;             // of a stationary one, without address
    npu::MxMm stationary;           // without addresses
    npu::MxMmos streamed;
    int64_t dst = 0, a = 0, b = 0;  // from the first byte (word) to the last
  };
  absl::StatusOr<Roles> roles_of(const Block& block) const;
  absl::Status product(const Block& block);
  absl::StatusOr<Product> prepare(const Block& block) const;
  absl::Status check_fields(const Block& block, const Roles& roles) const;
  absl::Status prepare_stationary(const Roles& roles, int64_t size, Product& product) const;
  absl::Status prepare_streamed(const Roles& roles, int64_t size, Product& product) const;
  absl::Status stationary(const Block& block, const Product& product);
  absl::Status streamed(const Block& block, const Product& product);

  // The weights in the array.
  struct Loaded {
    npu::MxLdw weights;
    npu::Dtype dtype = npu::Dtype::kI8;
    int buffer = -1;
    int64_t version = 0;  // of the buffer
    bool operator==(const Loaded& other) const {
      const npu::MxLdw &a = weights, &b = other.weights;
      return a.w == b.w && a.wstr == b.wstr && a.k == b.k && a.n == b.n && a.trans == b.trans &&
             dtype == other.dtype && buffer == other.buffer && version == other.version;
    }
  };

  const Kernel& kernel_;
  const npu::Config& config_;
  const int64_t most_;
  const NpuLayout layout_;
  std::vector<int64_t> variables_;
  std::vector<int64_t> versions_;  // of buffers: writes so far
  std::vector<bool> shared_;       // buffers that are both written and read
  Loaded loaded_;
  absl::flat_hash_map<const Block*, Product> products_;
  Operations operations_;
};

}  // namespace lw::npu_build
