// Steps of traces come from records and from others: whatever names one has, its domain is asked for
// without harm.
#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "schedules/nest.h"
#include "schedules/steps.h"
#include "schedules/targets/target.h"
#include "src/expr/language/text.h"

namespace lw {
namespace {

TEST(StepNames, AnyNumberOfThemHasADomain) {
  const absl::StatusOr<Program> program = load_workload({"matmul", "M=64", "N=64", "K=64"});
  ASSERT_TRUE(program.ok()) << program.status();
  for (const char* machine : {"x86_avx2", "opencl_gpu", "nvidia_sm80", "nvidia_sm90a"}) {
    const absl::StatusOr<Target> target = find_target(machine);
    ASSERT_TRUE(target.ok()) << target.status();
    const Nest nest = make_nest(std::make_shared<const Program>(*program),
                                std::make_shared<const Target>(*target), 1);
    for (const StepKind* kind : lw_step_table()) {
      if (kind->domain == nullptr) continue;
      // A step reads the part of its family's targets alone.
      const std::string family = kind->family == nullptr ? "" : kind->family;
      const bool has_items = std::string(machine) != "x86_avx2";
      if (family == "npu" || (family == "simt" && !has_items)) continue;
      Step step;
      step.kind = kind;
      for (const char* name : {"", "C", "i", "j", "k", "i", "j"}) {
        if (*name != 0) step.names.push_back(name);
        EXPECT_LT(kind->domain(nest, step).size(), 100'000u) << machine << " " << kind->name;
      }
    }
  }
}

}  // namespace
}  // namespace lw
