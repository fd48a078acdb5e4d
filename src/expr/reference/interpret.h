// The reference: executes a Program slowly and obviously right. Float reductions and bodies are
// evaluated in f64 and rounded to the tensor's type when stored; integers exactly, wrapping.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "src/expr/element.h"

namespace lw {

struct Program;

// Row-major data of one tensor; size = elements * size_of(type).
struct Data {
  std::vector<std::byte> bytes;
};

// `in`: one per input in order. Returns one per output in order. kOutOfRange for a gather index out
// of range, naming the tensor and the value. kResourceExhausted when over `max_operations`.
absl::StatusOr<std::vector<Data>> interpret(const Program& program, const std::vector<Data>& in,
                                            double max_operations = 1e12);

// Evaluates single points of outputs lazily (memoizing temporaries that are reductions):
// for verification of large kernels. Thread-compatible.
class PointOracle {
 public:
  // REQUIRES: `program` and the input buffers outlive the oracle; inputs in argument order.
  PointOracle(const Program& program, std::vector<const std::byte*> in);
  ~PointOracle();
  struct Value {
    double value;                          // the result (integers exactly when below 2^53)
    // How far a kernel that keeps the promise (rounding.h) may be from it: 0 where it must be met,
    // infinity where the promise leaves the result open.
    double error;
  };
  Value at(int tensor, const std::vector<int64_t>& index);
  // One for each row-major address; neighbours that follow each other are cheaper together.
  std::vector<Value> values(int tensor, const std::vector<int64_t>& addresses);

 private:
  struct Impl;
  Impl* impl_;
};

// The range random inputs must come from, by the use the program makes of the tensor: indices of
// gathers give [0, extent); otherwise floats [-1, 1], integers their natural small range.
struct InputRange {
  double lo = -1, hi = 1;
};
InputRange input_range(const Program& program, int tensor);

// Fills an input: `integers` = small integers (exact sums in floats), else reals of its range, so
// scaled that what the program makes of them keeps natural magnitudes (input.cc).
Data random_input(const Program& program, int tensor, uint64_t seed, bool integers);
// The same, into bytes(tensor) bytes at `out`.
void fill_random_input(const Program& program, int tensor, uint64_t seed, bool integers,
                       std::byte* out);

// The same with what is at the edges of numbers among natural values: zeros, subnormals, large
// numbers, infinities, slices of equal elements, the ends of integers. Indices stay in range.
// `subnormals` false: natural numbers in their place, for processors that take a hundred times as long
// over them.
void fill_edge_input(const Program& program, int tensor, uint64_t seed, bool subnormals,
                     std::byte* out);

}  // namespace lw
