// What to compute. A Program is a DAG of tensor definitions with every extent known. Each computed
// tensor is
//   T[a0, a1, ...] = reduce[r0, r1, ...](body)        (or just body, when reduce is kNone)
// Programs come from text in the language (docs/language.md), from words that name an operator of
// the library or of a file, or from builder.h. Values, immutable; functions are thread-safe and
// deterministic.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "loopwright/type.h"

namespace lw {

struct ExprNode;
using Expr = std::shared_ptr<const ExprNode>;

enum class Role : uint8_t { kInput, kTemp, kOutput };

struct Axis {
  std::string name;
  int64_t extent = 0;
};

struct Tensor {
  std::string name;
  Type type = Type::kF32;
  std::vector<int64_t> shape;              // row-major; empty for rank 0
  Role role = Role::kTemp;
  bool is_const = false;                   // inputs; temporaries that a schedule makes of such only
  // Computed tensors only:
  std::vector<Axis> axes;                  // one per dimension of `shape`
  std::vector<Axis> reduce_axes;
  Reduce reduce = Reduce::kNone;
  Expr body;                               // null for inputs
};

struct Program {
  std::string name;
  std::vector<Tensor> tensors;             // inputs in order of declaration, then definitions, each
                                           // after what it reads
};

// Number of elements; bytes.
int64_t elements(const Tensor& tensor);
int64_t bytes(const Tensor& tensor);

// The kernel's arguments in order: inputs in order of declaration, then outputs in order of
// declaration; positions in Program::tensors.
std::vector<int> arguments(const Program& program);
std::vector<int> inputs(const Program& program);
std::vector<int> outputs(const Program& program);

// "matmul M=512 N=512", "my.te:dense_relu M=128", "my.te" (a file with one op), or as the first word
// a text with one op, known by its line break: finds the op, instantiates it. Unknown names answer
// with the nearest ones. A word that every op takes is "allow=bf16": its f32 products are of operands
// rounded to bf16, where arrays of multipliers are for them; another program, which has another id.
// `const_names`: null keeps what the op declares, otherwise exactly these inputs are const (an
// unknown name is an error).
absl::StatusOr<Program> load_workload(const std::vector<std::string>& words,
                                      const std::vector<std::string>* const_names = nullptr);

// Whether a workload's first word is a program's text.
bool is_program_text(std::string_view word);

// A text with exactly one op, instantiated with its defaults: what print() gives and the wire
// carries. `name` stands for the file in messages.
absl::StatusOr<Program> parse_program(std::string_view text, std::string_view name);

// One readable definition a line, in the language itself (parses back to an equal Program).
std::string print(const Program& program);

// Names, comments, formatting and the order of commutative operands do not change it.
std::string workload_id(const Program& program);

}  // namespace lw
