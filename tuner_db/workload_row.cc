#include "tuner_db/workload_row.h"

#include <algorithm>

#include "src/base/check.h"
#include "src/base/hash.h"
#include "src/base/message.h"
#include "src/expr/language/text.h"
#include "src/expr/reference/interpret.h"
#include "src/expr/work/work.h"

namespace lw {
namespace {

constexpr double kCountedOtherwise = 4;    // how far versions' counts of the same may lie apart

// What two shapes of one operator share: the canonical text without extents, and without the float
// constants, into which extents are folded (1 / N of a mean).
std::string structure_of(const std::string& canonical) {
  std::string blanked;
  bool in_brackets = false;
  for (size_t i = 0; i < canonical.size(); ++i) {
    const char c = canonical[i];
    if (c == '[') in_brackets = true;
    if (c == ']') in_brackets = false;
    if (in_brackets && c >= '0' && c <= '9') continue;
    blanked += c;
    const bool float_constant = c == ':' && i >= 3 && canonical[i - 3] == 'f';
    if (float_constant) i = canonical.find_first_of(" )\n", i) - 1;
  }
  return sha256(blanked);
}

// `program`: of the text, by whatever names.
WorkloadRow derive(std::string canonical, const Program& program) {
  WorkloadRow row;
  row.canonical_text = std::move(canonical);
  row.id = sha256(row.canonical_text);
  row.flops = count_flops(program).useful;
  row.bytes = compulsory_bytes(program);
  row.structure = structure_of(row.canonical_text);
  const absl::StatusOr<std::vector<int>> order = definition_order(program);
  CHECK(order.ok());                       // of what verify() has passed
  for (int t : *order) {
    const Tensor& tensor = program.tensors[static_cast<size_t>(t)];
    row.shape.insert(row.shape.end(), tensor.shape.begin(), tensor.shape.end());
    for (const Axis& axis : tensor.reduce_axes) row.shape.push_back(axis.extent);
  }
  return row;
}

bool is_alike(double a, double b) {
  return a <= kCountedOtherwise * b && b <= kCountedOtherwise * a;
}

}  // namespace

WorkloadRow workload_row(const Program& program, const std::string& words) {
  std::string canonical = canonical_text(program);
  // What is counted depends a little on how a program is written: the text decides, as for everybody
  // who has no more than that.
  const absl::StatusOr<Program> read = parse_canonical(canonical);
  WorkloadRow row = derive(std::move(canonical), read.ok() ? *read : program);
  row.name = program.name;
  row.source_words = words;
  row.program = print(program);
  return row;
}

absl::StatusOr<WorkloadRow> row_of_canonical(std::string_view canonical_text) {
  ASSIGN_OR_RETURN(const Program program, parse_canonical(canonical_text));
  return derive(std::string(canonical_text), program);
}

absl::Status correct(WorkloadRow* row) {
  ASSIGN_OR_RETURN(WorkloadRow right, row_of_canonical(row->canonical_text));
  if (right.id != row->id) {
    return absl::InvalidArgumentError("the id is not the canonical text's sha256");
  }
  if (!row->program.empty()) {
    ASSIGN_OR_RETURN(const Program program, parse_program(row->program, "program"));
    if (workload_id(program) != row->id) {
      return absl::InvalidArgumentError("the program is another workload's");
    }
    right.name = program.name;
    right.program = print(program);
  } else {
    right.name = std::move(row->name);
  }
  right.source_words = std::move(row->source_words);
  *row = std::move(right);
  return absl::OkStatus();
}

std::string contradiction(const WorkloadRow& row) {
  const absl::StatusOr<WorkloadRow> right = row_of_canonical(row.canonical_text);
  if (!right.ok()) return std::string(right.status().message());
  if (row.id != right->id) return "its id is not that of its canonical text";
  if (row.structure != right->structure) return "its family is not that of its canonical text";
  std::vector<int64_t> shape = row.shape, extents = right->shape;
  std::sort(shape.begin(), shape.end());
  std::sort(extents.begin(), extents.end());
  if (shape != extents) return "its shape is not that of its canonical text";
  if (!is_alike(row.flops, right->flops) || !is_alike(row.bytes, right->bytes)) {
    return "its flops or bytes are far from what its canonical text says";
  }
  if (row.program.empty()) return "";
  const absl::StatusOr<Program> program = parse_program(row.program, "program");
  if (!program.ok() || workload_id(*program) != row.id) return "its program is another workload's";
  return "";
}

}  // namespace lw
