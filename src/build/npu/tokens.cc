#include <algorithm>
#include <utility>

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
bool has_place(const std::array<uint8_t, 2>& tokens, uint8_t id) {
  return tokens[0] != id && tokens[1] != id && (tokens[0] == kNoToken || tokens[1] == kNoToken);
}
void put(std::array<uint8_t, 2>& tokens, uint8_t id) {
  tokens[tokens[0] == kNoToken ? 0 : 1] = id;
}

class Tokens {
 public:
  Tokens(const Operations& operations, const std::vector<int32_t>& order, const npu::Config& config,
         npu::Program& program)
      : operations_(operations),
        order_(order),
        program_(program),
        semaphores_(config.queues.semaphores),
        syncs_(program.size()),
        clocks_(program.size()),
        previous_(program.size(), -1) {
    for (auto* ids : {&ids_, &chain_ids_}) {
      for (auto& row : *ids) row.fill(kNoToken);
    }
    for (auto& row : last_chained_) row.fill({-1, -1});
    last_.fill(-1);
    known_.fill(kNothing);
  }

  absl::Status run() {
    for (int32_t i = 0; i < static_cast<int32_t>(program_.size()); ++i) {
      const int lane = lane_of(at(i)), engine = engine_of(lane);
      previous_[static_cast<size_t>(i)] = last_[engine];
      last_[engine] = i;
      // What the array begins finds all that was packed before it, weights apart.
      if (engine == engine_of(kPacks) && !loads_weights(i)) known_[engine][kPacks] = last_packed_;
      if (lane == kPacks) last_packed_ = i;
      const std::span<const Touch> touches = operations_.touches(order_[static_cast<size_t>(i)]);
      Latest needed = hazards_.before(touches, lane, known_[engine]);
      // The latest first: who waited for it may know of the others.
      givers_.clear();
      for (;;) {
        const auto latest = std::max_element(needed.begin(), needed.end());
        if (*latest < 0) break;
        const int producer = static_cast<int>(latest - needed.begin());
        if (*latest > known_[engine][producer]) RETURN_IF_ERROR(wait(i, engine, *latest, producer));
        *latest = -1;
      }
      clocks_[static_cast<size_t>(i)] = known_[engine];
      hazards_.note(touches, lane, i);
    }
    return absl::OkStatus();
  }

  // By operation, which engines (bit e: Engine e) are to be idle before it is dispatched.
  const std::vector<uint8_t>& syncs() const { return syncs_; }

 private:
  npu::Instruction& at(int32_t i) { return program_[static_cast<size_t>(i)]; }

  // Operation `i` of `engine` waits until `number` of the lane `producer` is done: for its own token,
  // or, where it gives two already, for that of a later one which is certain to be done after it.
  absl::Status wait(int32_t i, int engine, int32_t number, int producer) {
    for (int32_t giver = number; giver < i; ++giver) {
      const int of = lane_of(at(giver));
      const bool after = giver == number || (of == producer && !loads_weights(giver)) ||
                         clocks_[static_cast<size_t>(giver)][producer] >= number;
      if (!after || !waits(lane_of(at(i)), of) || loads_weights(giver)) continue;
      ASSIGN_OR_RETURN(const uint8_t id, semaphore(of, engine, ids_));
      if (!has_place(at(giver).signal, id)) continue;
      // A token may be taken earlier in the engine's order, if its giver is dispatched before.
      int32_t taker = i;
      while (taker > giver && !has_place(at(taker).wait, id)) {
        taker = previous_[static_cast<size_t>(taker)];
      }
      if (taker <= giver) {
        ASSIGN_OR_RETURN(const bool chained, chain(i, engine, number, producer));
        if (!chained) sync(i, producer);
        return absl::OkStatus();
      }
      put(at(giver).signal, id);
      put(at(taker).wait, id);
      learn(known_[engine], giver);
      givers_.push_back(giver);
      return absl::OkStatus();
    }
    sync(i, producer);
    return absl::OkStatus();
  }

  // What operation `i` cannot wait for itself, one waits for that it waits for. Such tokens have
  // semaphores of their own, each given and taken behind the ones before. False: there is none.
  absl::StatusOr<bool> chain(int32_t i, int engine, int32_t number, int producer) {
    for (const int32_t link : givers_) {
      const int of = engine_of(lane_of(at(link)));
      if (of == engine_of(producer) || loads_weights(link)) continue;
      ASSIGN_OR_RETURN(const uint8_t id, semaphore(producer, of, chain_ids_));
      auto& [last_giver, last_link] = last_chained_[producer][of];
      if (link <= last_link || !has_place(at(link).wait, id)) continue;
      for (int32_t giver = std::max(number, last_giver + 1); giver < link; ++giver) {
        if (lane_of(at(giver)) != producer || loads_weights(giver)) continue;
        if (!has_place(at(giver).signal, id)) continue;
        put(at(giver).signal, id);
        put(at(link).wait, id);
        last_giver = giver, last_link = link;
        learn(clocks_[static_cast<size_t>(link)], giver);
        learn(known_[engine], giver);
        return true;
      }
    }
    return false;
  }

  // Where tokens have no place, all waits until the producer's engine is idle.
  void sync(int32_t i, int producer) {
    const int idle = engine_of(producer);
    syncs_[static_cast<size_t>(i)] |= static_cast<uint8_t>(1 << idle);
    for (Latest& known : known_) {
      learn(known, last_[idle]);
      for (int lane = 0; lane < kLanes; ++lane) {
        if (engine_of(lane) == idle) known[lane] = std::max(known[lane], last_[idle]);
      }
    }
  }

  // Who knows that the giver is done knows what that knew.
  void learn(Latest& known, int32_t giver) {
    const Latest& told = clocks_[static_cast<size_t>(giver)];
    for (int l = 0; l < kLanes; ++l) known[l] = std::max(known[l], told[l]);
    int32_t& done = known[lane_of(at(giver))];
    done = std::max(done, giver);
  }

  // Weights may be there before the products are done that came before them.
  bool loads_weights(int32_t i) { return std::holds_alternative<npu::MxLdw>(at(i).body); }

  using Ids = std::array<std::array<uint8_t, kEngines>, kLanes>;  // by who signals, who waits

  absl::StatusOr<uint8_t> semaphore(int producer, int engine, Ids& ids) {
    uint8_t& id = ids[producer][engine];
    if (id == kNoToken) id = static_cast<uint8_t>(used_++);
    if (id >= semaphores_) {
      return absl::InvalidArgumentError(concat("the program takes ", used_, " semaphores of the ",
                                               semaphores_, " of queues.sems"));
    }
    return id;
  }

  const Operations& operations_;
  const std::vector<int32_t>& order_;
  npu::Program& program_;
  Hazards hazards_;
  const int64_t semaphores_;
  int used_ = 0;
  Ids ids_, chain_ids_;
  // The last of chain's tokens: who gave it, who takes it.
  std::array<std::array<std::pair<int32_t, int32_t>, kEngines>, kLanes> last_chained_;
  int32_t last_packed_ = -1;
  std::vector<uint8_t> syncs_;
  std::vector<int32_t> givers_;  // for whom the operation at hand waits itself
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
  npu::Program tokened;
  tokened.reserve(order.size());
  for (const int32_t i : order) tokened.push_back(operations.instruction(i));
  Tokens tokens(operations, order, config, tokened);
  RETURN_IF_ERROR(tokens.run());
  npu::Program program;
  program.reserve(order.size() + 1);
  for (size_t i = 0; i < tokened.size(); ++i) {
    if (tokens.syncs()[i] != 0) program.push_back({npu::Sync{tokens.syncs()[i]}});
    program.push_back(std::move(tokened[i]));
  }
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
