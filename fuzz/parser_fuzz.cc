// Fuzz target of the front end: any bytes parse or are refused, and what parses prints back to
// itself, keeps its identity, verifies and (when small) runs. With clang's libFuzzer:
//   cmake/fuzz.cmake says how.
// tests/expr/expr_fuzz_test.cc runs the same function on mutations of the operator library.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "src/base/check.h"
#include "src/expr/expr.h"
#include "src/expr/language/text.h"
#include "src/expr/reference/interpret.h"
#include "src/expr/work/work.h"

namespace lw {
namespace {

void run_small(const Program& program) {
  double size = 0;
  for (const Tensor& tensor : program.tensors) size += static_cast<double>(elements(tensor));
  if (size > 4096) return;
  std::vector<Data> in;
  for (int input : inputs(program)) in.push_back(random_input(program, input, 1, true));
  (void)interpret(program, in, 1e6);
}

void exercise(const OpDefinition& op) {
  absl::StatusOr<Program> program = instantiate(op, {});
  CHECK(program.ok());                     // parse_module has instantiated it with its defaults
  CHECK(verify(*program).ok());
  const std::string text = print(*program);
  absl::StatusOr<Module> again = parse_module(text, "printed");
  if (!again.ok() && text.size() > 100000) return;  // printing may pass the limit on a file's size
  CHECK(again.ok());
  absl::StatusOr<Program> same = instantiate(again->ops[0], {});
  CHECK(same.ok() && print(*same) == text && workload_id(*same) == workload_id(*program));
  (void)count_flops(*program);
  run_small(*program);
}

}  // namespace
}  // namespace lw

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  absl::StatusOr<lw::Module> module = lw::parse_module(text, "fuzz.te");
  if (!module.ok()) {
    CHECK(!module.status().message().empty());
    return 0;
  }
  for (const lw::OpDefinition& op : module->ops) lw::exercise(op);
  return 0;
}
