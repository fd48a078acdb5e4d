// What kernels of OpenCL's devices are held to: the library's operators and the programs of
// fused.te at extents that are drawn, and schedules of their spaces, of groups of several items
// where these are wanted.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schedules/targets/simt/simt_target.h"
#include "src/base/check.h"
#include "src/build/emulator/emulate.h"
#include "src/kernel/blocks.h"
#include "tests/kernels/random_shapes.h"
#include "tests/support/close_results.h"
#include "tests/support/files.h"
#include "tests/support/program.h"
#include "tests/support/scheduled_kernels.h"

namespace lw {

inline const std::vector<OpDefinition>& fused_ops() {
  static const std::vector<OpDefinition> ops = [] {
    const std::string file = LW_SOURCE_DIR "/tests/kernels/fused.te";
    return parse_module(slurp(file), file).value().ops;
  }();
  return ops;
}

inline std::vector<OpDefinition> library_and_fused_ops() {
  std::vector<OpDefinition> ops = builtin_ops();
  ops.insert(ops.end(), fused_ops().begin(), fused_ops().end());
  return ops;
}
// And those of a text.
inline std::vector<OpDefinition> library_and_fused_ops(std::string_view more) {
  std::vector<OpDefinition> ops = library_and_fused_ops();
  const std::vector<OpDefinition> own = parse_module(std::string(more), "more").value().ops;
  ops.insert(ops.end(), own.begin(), own.end());
  return ops;
}

// A program with inputs, and what the reference makes of them.
struct HeldProgram {
  std::string name;
  std::shared_ptr<const Program> program;
  std::vector<Data> in, want;
};

// nullopt: too much for the reference.
inline std::optional<HeldProgram> held_program(const std::string& name, Program program,
                                               std::vector<Data> in,
                                               double most_operations = 2e6) {
  absl::StatusOr<std::vector<Data>> want = interpret(program, in, most_operations);
  if (!want.ok()) return std::nullopt;
  return HeldProgram{name, std::make_shared<const Program>(std::move(program)), std::move(in),
                     *std::move(want)};
}

inline std::optional<HeldProgram> held_operator(const OpDefinition& op, int shape,
                                                double most_flops, Rng& rng) {
  RandomShape drawn = random_shape(op, shape, most_flops, 1 << 16, rng);
  std::string name;
  for (const std::string& word : drawn.words) name += (name.empty() ? "" : " ") + word;
  std::vector<Data> in = fitting_inputs(drawn.program, rng);
  return held_program(name, std::move(drawn.program), std::move(in));
}

// A device without f64 runs programs without it.
inline bool takes(const Target& target, const Program& program) {
  return simt(target).fp64 ||
         std::none_of(program.tensors.begin(), program.tensors.end(),
                      [](const Tensor& tensor) { return tensor.type == Type::kF64; });
}

// Calls `visit` with operators at extents that are drawn, LW_SHAPES or so many times each, the targets
// drawn for them and what draws on.
inline void for_each_held(
    const std::vector<OpDefinition>& ops, int64_t usual_shapes, double most_flops,
    const std::function<std::shared_ptr<const Target>(Rng&)>& target_of,
    const std::function<void(const HeldProgram&, std::shared_ptr<const Target>, Rng&)>& visit) {
  const int64_t shapes = setting("LW_SHAPES", usual_shapes);
  for (size_t o = 0; o < ops.size(); ++o) {
    Rng rng = Rng(static_cast<uint64_t>(setting("LW_SEED", 22))).split(o);
    for (int64_t n = 0; n < shapes; ++n) {
      const int shape = static_cast<int>(n % 2 == 0 ? ShapeKind::kAny : ShapeKind::kPrimes);
      const std::shared_ptr<const Target> target = target_of(rng);
      const std::optional<HeldProgram> held = held_operator(ops[o], shape, most_flops, rng);
      if (!held || !takes(*target, *held->program)) continue;
      visit(*held, target, rng);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

inline int64_t count_statements(const std::vector<Stmt>& list) {
  int64_t found = static_cast<int64_t>(list.size());
  for (const Stmt& s : list) found += count_statements(s.body) + count_statements(s.otherwise);
  return found;
}

// "" when the results are those of the reference.
inline std::string wrong_result(const HeldProgram& held, const std::vector<Data>& got) {
  const std::vector<int> out = outputs(*held.program);
  for (size_t i = 0; i < out.size(); ++i) {
    const std::string wrong =
        compare(held.program->tensors[out[i]], got[i].bytes.data(), held.want[i].bytes.data(),
                tolerance(*held.program));
    if (!wrong.empty()) return wrong;
  }
  return "";
}

// Inputs, and then outputs of so many bytes.
struct CallMemory {
  CallMemory(const std::vector<Data>& in, const std::vector<int64_t>& out)
      : data(in), inputs(static_cast<int64_t>(in.size())) {
    for (const int64_t bytes : out) {
      data.push_back({std::vector<std::byte>(static_cast<size_t>(bytes))});
    }
    for (Data& one : data) pointers.push_back(one.bytes.data());
  }
  CallMemory(const CallMemory&) = delete;
  std::vector<Data> results() const { return {data.begin() + inputs, data.end()}; }

  std::vector<Data> data;
  std::vector<void*> pointers;             // a call's arguments
  int64_t inputs;
};

inline std::vector<int64_t> result_bytes(const Program& program) {
  std::vector<int64_t> sizes;
  for (int t : outputs(program)) sizes.push_back(bytes(program.tensors[t]));
  return sizes;
}

// "": right on the emulator, and without a race.
inline std::string emulated_wrong(const Kernel& kernel, const HeldProgram& held,
                                  ItemOrder::Kind order) {
  CallMemory memory(held.in, result_bytes(*held.program));
  const absl::Status status = emulate(kernel, memory.pointers.data(), {{order, 1}});
  return status.ok() ? wrong_result(held, memory.results()) : std::string(status.message());
}

// Whichever order items run in.
inline void expect_no_race(const Kernel& kernel, const Program& program, const std::vector<Data>& in) {
  CallMemory memory(in, result_bytes(program));
  for (const ItemOrder::Kind kind : {ItemOrder::Kind::kAscending, ItemOrder::Kind::kShuffled}) {
    EmulateOptions options;
    options.order.kind = kind;
    const absl::Status status = emulate(kernel, memory.pointers.data(), options);
    EXPECT_TRUE(status.ok()) << status << print(kernel);
  }
}

class DrawnSpace {
 public:
  // `word`: only of sketches with it in their names.
  DrawnSpace(std::shared_ptr<const Program> program, std::shared_ptr<const Target> target,
             std::string_view word = "")
      : start_(make_nest(std::move(program), std::move(target), 1)), sketches_(make_space(start_)) {
    std::erase_if(sketches_, [&](const Sketch& sketch) {
      return sketch.name.find(word) == std::string::npos;
    });
    for (const Sketch& sketch : sketches_) {
      const bool groups =
          std::any_of(sketch.steps.begin(), sketch.steps.end(), [](const Step& step) {
            return std::string_view(step.kind->name) == "items";
          });
      if (groups) grouped_.push_back(sketch);
    }
  }

  // nullopt: none of some attempts was feasible.
  std::optional<Scheduled> draw(Rng& rng) const { return draw_kernel(start_, sketches_, rng, 20); }

  // One of groups of several items; nullopt: in vain, or the space has none.
  std::optional<Scheduled> draw_group(Rng& rng) const {
    for (int n = 0; n < 20 && !grouped_.empty(); ++n) {
      std::optional<Scheduled> drawn = draw_kernel(start_, grouped_, rng, 5);
      if (drawn && has_groups(drawn->kernel)) return drawn;
    }
    return std::nullopt;
  }

  // Of groups if the space has any.
  std::optional<Scheduled> draw(bool grouped, Rng& rng) const {
    std::optional<Scheduled> drawn;
    if (grouped) drawn = draw_group(rng);
    return drawn ? drawn : draw(rng);
  }

 private:
  Nest start_;
  std::vector<Sketch> sketches_, grouped_;
};

}  // namespace lw
