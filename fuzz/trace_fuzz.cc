// libFuzzer target for the trace reader: any bytes parse or are refused, and what parses applies to
// a nest or is infeasible. Build with clang -fsanitize=fuzzer,address,undefined.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "schedules/steps.h"
#include "schedules/targets/target.h"
#include "src/base/check.h"
#include "src/expr/expr.h"
#include "src/expr/language/text.h"

namespace {

lw::Nest start_nest() {
  const absl::StatusOr<lw::Program> program =
      lw::load_workload({"dense_relu", "M=37", "N=50", "K=64"});
  const absl::StatusOr<lw::Target> target = lw::find_target("x86_avx512");
  CHECK(program.ok() && target.ok());
  return lw::make_nest(std::make_shared<const lw::Program>(*program),
                       std::make_shared<const lw::Target>(*target), 2);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const lw::Nest start = start_nest();
  const absl::StatusOr<lw::Trace> trace =
      lw::parse_trace(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!trace.ok()) {
    CHECK(trace.status().code() == absl::StatusCode::kInvalidArgument);
    return 0;
  }
  const std::string text = lw::to_text(*trace);
  CHECK(lw::to_text(*lw::parse_trace(text)) == text);
  lw::Nest nest = start;
  for (size_t n = 0; n < trace->size() && n < 64; ++n) {
    lw::Nest next = nest;
    const absl::Status status = lw::apply(next, (*trace)[n]);
    if (!status.ok()) {
      CHECK(status.code() == absl::StatusCode::kFailedPrecondition);
      continue;
    }
    CHECK(lw::verify(next).ok());
    nest = std::move(next);
  }
  return 0;
}
