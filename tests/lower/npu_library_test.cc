// What of the library NPUs compute: every operator, in each type that it takes of those that they
// have, and of f32 the products of rounded operands, as requested without further parameters. Those that they refuse are listed here, with what
// the refusal says, so that none is lost or won unknowingly.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "loopwright/program.h"
#include "schedules/steps.h"
#include "schedules/targets/target.h"
#include "src/base/rng.h"
#include "src/expr/language/text.h"
#include "src/expr/round_operands.h"
#include "src/lower/lower.h"
#include "tests/support/program.h"

namespace lw {
namespace {

// "conv2d T=bf16", and part of why it is refused.
constexpr const char* kNoCast = "it casts no i32 to i8 but as cast(i8, clamp(round(cast(f32, ";
constexpr const char* kSaturates = "of i8 saturates: cast to i32 what is read";
constexpr const char* kUnsigned = "it has i8, i32, bf16 and f32, and A is u8";
constexpr const char* kData =
    "it reads table at cast(i64, rows[i]), which is no sum of multiples of axes";

const std::map<std::string, std::string> kRefused = {
    {"add T=i8", kSaturates},
    {"avg_pool2d T=i8", kNoCast},
    {"bias_add T=i8", kSaturates},
    {"conv2d_bn_relu T=i8", kNoCast},
    {"dense_bias T=i8", kNoCast},
    {"dense_i8", kUnsigned},
    {"dense_relu T=i8", kNoCast},
    {"dense_u8i8", kUnsigned},
    {"gather_rows T=bf16", kData},
    {"gather_rows T=i8", kData},
    {"global_avg_pool2d T=i8", kNoCast},
    {"matmul_u8i8", kUnsigned},
    {"mul T=i8", kSaturates},
    {"row_mean T=i8", kNoCast},
};

// The operator as it is declared where it takes no type of a tensor, else in each type, and with
// operands to be rounded.
std::map<std::string, Program> forms_of(const OpDefinition& op) {
  std::map<std::string, Program> forms;
  for (const Parameter& parameter : op.parameters) {
    Type type;
    if (!parse_type(parameter.default_text, &type)) continue;
    for (const std::string name : {"bf16", "i8"}) {
      if (op.name.ends_with("_requant") && name != "i8") continue;  // of bytes
      absl::StatusOr<Program> program = instantiate(op, {{parameter.name, name}});
      if (program.ok()) forms.emplace(op.name + " " + parameter.name + "=" + name, *program);
    }
    const Program floats = *instantiate(op, {}), rounded = *round_operands(floats);
    if (rounded.tensors.size() > floats.tensors.size()) {
      forms.emplace(op.name + " allow=bf16", rounded);
    }
    return forms;
  }
  forms.emplace(op.name, *instantiate(op, {}));
  return forms;
}

// Why no schedule of the program can be lowered for the target; "": one can.
std::string refusal(const Program& program, const std::string& target) {
  const Nest start = make_nest(std::make_shared<const Program>(program),
                               std::make_shared<const Target>(*find_target(target)), 1);
  const std::vector<Sketch> space = make_space(start);
  if (space[0].last_resort) return std::string(lower(start).status().message());
  Rng rng(1);
  std::string why = "no sample";
  for (const Sketch& sketch : space) {
    const absl::StatusOr<Sample> sample = lw::sample(start, sketch, rng);
    if (!sample.ok()) continue;
    const absl::StatusOr<Kernel> kernel = lower(sample->nest);
    if (kernel.ok()) return "";
    why = std::string(kernel.status().message());
  }
  return why;
}

TEST(NpuLibrary, IsComputedButForWhatIsListed) {
  std::map<std::string, std::string> left = kRefused;
  for (const OpDefinition& op : builtin_ops()) {
    for (const auto& [name, program] : forms_of(op)) {
      const auto listed = kRefused.find(name);
      left.erase(name);
      for (const char* const target : {"npu_edge16", "npu_mid32", "npu_big128"}) {
        const std::string why = refusal(program, target);
        if (listed == kRefused.end()) {
          EXPECT_EQ(why, "") << name << " on " << target;
        } else {
          EXPECT_NE(why.find(listed->second), why.npos) << name << " on " << target << ": " << why;
        }
      }
    }
  }
  for (const auto& [name, why] : left) ADD_FAILURE() << name << " is listed and not there";
}

}  // namespace
}  // namespace lw
