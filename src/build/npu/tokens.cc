#include <algorithm>

#include "src/base/check.h"
#include "src/base/message.h"
#include "src/build/npu/hazards.h"
#include "src/npu/isa/check.h"

namespace lw {
namespace npu_build {
namespace {

using npu::kEngines;
using npu::kNoToken;

// Each semaphore once.
bool put(std::array<uint8_t, 2>& tokens, uint8_t id) {
  if (tokens[0] == id || tokens[1] == id) return false;
  for (uint8_t& token : tokens) {
    if (token != kNoToken) continue;
    token = id;
    return true;
  }
  return false;
}

class Tokens {
 public:
  Tokens(const Operations& operations, const std::vector<int32_t>& order, const npu::Config& config,
         npu::Program& program)
      : operations_(operations),
        order_(order),
        program_(program),
        semaphores_(config.queues.semaphores),
        clocks_(program.size()),
        previous_(program.size(), -1) {
    for (auto& row : ids_) row.fill(kNoToken);
    last_.fill(-1);
    known_.fill(kNothing);
  }

  absl::Status run() {
    for (int32_t i = 0; i < static_cast<int32_t>(program_.size()); ++i) {
      const int engine = engine_of(i);
      previous_[static_cast<size_t>(i)] = last_[engine];
      last_[engine] = i;
      const std::span<const Touch> touches = operations_.touches(order_[static_cast<size_t>(i)]);
      Latest needed = hazards_.before(touches, engine, known_[engine]);
      // The latest first: who waited for it may know of the others.
      for (;;) {
        const auto latest = std::max_element(needed.begin(), needed.end());
        if (*latest < 0) break;
        const int producer = static_cast<int>(latest - needed.begin());
        if (*latest > known_[engine][producer]) RETURN_IF_ERROR(wait(i, engine, *latest, producer));
        *latest = -1;
      }
      clocks_[static_cast<size_t>(i)] = known_[engine];
      hazards_.note(touches, engine, i);
    }
    return absl::OkStatus();
  }

 private:
  npu::Instruction& at(int32_t i) { return program_[static_cast<size_t>(i)]; }
  int engine_of(int32_t i) { return static_cast<int>(at(i).op().engine); }

  // Operation `i` of `engine` waits until `number` of `producer` is done: for its own token, or,
  // where it gives two already, for that of a later one which is certain to be done after it.
  absl::Status wait(int32_t i, int engine, int32_t number, int producer) {
    for (int32_t giver = number; giver < i; ++giver) {
      const int of = engine_of(giver);
      const bool after = giver == number || (of == producer && !loads_weights(giver)) ||
                         clocks_[static_cast<size_t>(giver)][producer] >= number;
      if (!after || of == engine || loads_weights(giver)) continue;
      ASSIGN_OR_RETURN(const uint8_t id, semaphore(of, engine));
      if (!put(at(giver).signal, id)) continue;
      // A token may be taken earlier in the engine's order, if its giver is dispatched before.
      int32_t taker = i;
      while (taker > giver && !put(at(taker).wait, id)) {
        taker = previous_[static_cast<size_t>(taker)];
      }
      if (taker <= giver) return full(i, "waits");
      Latest& known = known_[engine];
      const Latest& told = clocks_[static_cast<size_t>(giver)];
      for (int e = 0; e < kEngines; ++e) known[e] = std::max(known[e], told[e]);
      known[of] = std::max(known[of], giver);
      return absl::OkStatus();
    }
    return full(number, "signals");
  }

  // Weights may be there before the products are done that came before them.
  bool loads_weights(int32_t i) { return std::holds_alternative<npu::MxLdw>(at(i).body); }

  absl::StatusOr<uint8_t> semaphore(int producer, int engine) {
    uint8_t& id = ids_[producer][engine];
    if (id == kNoToken) id = static_cast<uint8_t>(used_++);
    if (id >= semaphores_) {
      return absl::InvalidArgumentError(concat("the program takes ", used_, " semaphores of the ",
                                               semaphores_, " of queues.sems"));
    }
    return id;
  }

  absl::Status full(int32_t number, const char* what) {
    return absl::InvalidArgumentError(
        concat("instruction ", number, " (", at(number).op().name, ") has more than two ", what));
  }

  const Operations& operations_;
  const std::vector<int32_t>& order_;
  npu::Program& program_;
  Hazards hazards_;
  const int64_t semaphores_;
  int used_ = 0;
  std::array<std::array<uint8_t, kEngines>, kEngines> ids_;  // by who signals, who waits
  // What was certain to be done when an operation began; what is when an engine's next one does.
  std::vector<Latest> clocks_;
  std::array<Latest, kEngines> known_;
  std::vector<int32_t> previous_;  // of the same engine
  std::array<int32_t, kEngines> last_;
};

}  // namespace

absl::StatusOr<npu::Program> add_tokens(const Operations& operations,
                                        const std::vector<int32_t>& order,
                                        const npu::Config& config) {
  npu::Program program;
  program.reserve(order.size() + 1);
  for (const int32_t i : order) program.push_back(operations.instruction(i));
  RETURN_IF_ERROR(Tokens(operations, order, config, program).run());
  program.push_back({npu::Halt()});
  RETURN_IF_ERROR(npu::check_program(config, program));
  return program;
}

}  // namespace npu_build

absl::StatusOr<npu::Program> encode_npu(const Kernel& kernel, const npu::Config& config,
                                        int64_t most) {
  using namespace npu_build;
  ASSIGN_OR_RETURN(const Operations operations, unroll(kernel, config, most));
  return add_tokens(operations, fill_early(operations), config);
}

}  // namespace lw
