// NumPy's array files (.npy, format versions 1 to 3): what `run` reads and writes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace lw {

struct Tensor;

// Only what our tensors can be: little-endian, C order. bf16, which NumPy does not have, is "<u2"
// or
// "|V2" holding its bits.
struct NpyHeader {
  std::string descr;                       // "<f4"
  bool fortran_order = false;
  std::vector<int64_t> shape;
  size_t data_offset = 0;
};

// Never crashes on any bytes; kInvalidArgument says what is wrong.
absl::StatusOr<NpyHeader> parse_npy_header(std::string_view file);

// The file's data into `data`, bytes(tensor) of them. kInvalidArgument names what was expected and
// found: type, shape, order, length.
absl::Status read_npy(const std::string& path, const Tensor& tensor, std::byte* data);
absl::Status write_npy(const std::string& path, const Tensor& tensor, const std::byte* data);

}  // namespace lw
