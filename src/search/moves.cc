// Where options come from. Sketches compete: each gets draws in proportion to how its best compares
// with the best of all, and a fifth of the draws go to all alike, so that none is given up for
// good.
#include <algorithm>
#include <cmath>

#include "src/base/check.h"
#include "src/base/message.h"
#include "src/base/rng.h"
#include "src/expr/expr.h"
#include "src/lower/lower.h"
#include "src/search/pool.h"

namespace lw::search {
namespace {

constexpr double kEvenShare = 0.2;  // of the draws, over all sketches alike
constexpr double kSharpness = 3;    // weight of a sketch: (best of all / its best) ^ this
constexpr int kFirstDraws = 8;      // of every sketch before they compete
// Of draws, in some 60 ns.
constexpr double kRoundWork = 1.5e6;
constexpr double kAttachedWork = 10;   // of a look at a stage, where some are attached to others
constexpr double kNodeWork = 3;        // of a node of a body
constexpr double kOpenWork = 60;       // of a decision: its domain
constexpr double kStatementWork = 0.1;
constexpr double kBredShare = 0.25;    // of a round, kept for children
constexpr double kCrossed = 0.3;    // of the children
constexpr int kTournament = 3;
// Of build_handicap(); how building compares with measuring is about the same on all hosts.
constexpr double kBuildWeight = 0.05;   // chosen among 0, 0.05, 0.1 and 0.2
constexpr double kStatementUs = 30;     // to build one
constexpr double kTrialUs = 30e3;       // any trial, but for that and the kernel's calls
constexpr double kCalls = 4;            // timed in the median trial of a slow kernel

// What another draw of the sketch takes but for its statements: every step that is replayed looks at
// all stages, and where some are attached to others' loops at what all readers need.
double work_of(const Sketch& sketch) {
  if (sketch.settled == nullptr) return 0;
  const std::vector<Stage>& stages = sketch.settled->nest.stages;
  const bool attached = std::any_of(stages.begin(), stages.end(),
                                    [](const Stage& s) { return s.place == Place::kAt; });
  double nodes = 0;
  for (const Stage& stage : stages) {
    if (stage.place == Place::kInlined || stage.copy_of >= 0) continue;
    visit(stage.body->value, [&](const ExprNode&) { ++nodes; });
  }
  const size_t looks = (sketch.steps.size() - sketch.settled->steps) * stages.size();
  const auto open = std::count(sketch.open.begin(), sketch.open.end(), true);
  return (attached ? kAttachedWork : 1) * static_cast<double>(looks) + kNodeWork * nodes +
         kOpenWork * static_cast<double>(open);
}

}  // namespace

Option make_option(int sketch, Sample sample, Origin origin) {
  Option option;
  option.sketch = sketch;
  option.features = features(sample.nest);
  option.trace = std::move(sample.trace);
  option.text = to_text(option.trace);
  option.draft_us = std::exp2(static_cast<double>(option.features[kDraftFeature]));
  option.kind = feature_kind(static_cast<uint64_t>(sketch), sample.nest, option.features);
  option.origin = origin;
  return option;
}

float build_handicap(const Option& option) {
  const double build_us = kStatementUs * static_cast<double>(option.statements);
  const double measure_us = kTrialUs + kCalls * option.draft_us;
  return static_cast<float>(kBuildWeight * std::log2(1 + build_us / measure_us));
}

Moves::Moves(const Nest& start, std::vector<Sketch> space, uint64_t seed, bool use_draft)
    : start_(start),
      space_(space.empty() ? make_space(start) : std::move(space)),
      seed_(seed),
      use_draft_(use_draft) {
  CHECK(!space_.empty());
  for (const Sketch& sketch : space_) arms_.push_back({.work = work_of(sketch)});
}

void Moves::begin_round() { left_ = kRoundWork; }

double Moves::work(const Arm& arm) const {
  return arm.work + kStatementWork * static_cast<double>(arm.statements);
}

int Moves::choose_sketch(Rng& rng) const {
  const int count = static_cast<int>(space_.size());
  const auto least = std::min_element(arms_.begin(), arms_.end(), [](const Arm& a, const Arm& b) {
    return a.drawn < b.drawn;
  });
  if (least->drawn < kFirstDraws) return static_cast<int>(least - arms_.begin());
  if (rng.uniform() < kEvenShare) return static_cast<int>(rng.below(count));
  double best = 0;
  std::vector<double> time(count, 0);
  for (int s = 0; s < count; ++s) {
    time[s] = arms_[s].measured_us > 0 ? arms_[s].measured_us : arms_[s].drafted_us;
    if (time[s] > 0 && (best == 0 || time[s] < best)) best = time[s];
  }
  double sum = 0;
  for (int s = 0; s < count; ++s) {
    const bool drawable = arms_[s].failed < arms_[s].drawn;
    const double unknown = !use_draft_ && drawable ? 1 : 0;
    sum += time[s] = time[s] > 0 ? std::pow(best / time[s], kSharpness) : unknown;
  }
  double at = rng.uniform() * sum;
  for (int s = 0; s < count; ++s) {
    at -= time[s];
    if (at < 0) return s;
  }
  return static_cast<int>(rng.below(count));
}

int Moves::extend(Sketch sketch) {
  space_.push_back(std::move(sketch));
  arms_.push_back({.work = work_of(space_.back())});
  return static_cast<int>(space_.size()) - 1;
}

void Moves::refuse(int sketch, const absl::Status& status) {
  refused_ = concat("'", space_[sketch].name, "': ", std::string(status.message()));
}

bool Moves::add(int sketch, Sample sample, Origin origin, std::vector<Option>& out) {
  const absl::StatusOr<int64_t> statements = count_statements(sample.nest);
  if (!statements.ok()) {
    refuse(sketch, statements.status());
    return false;
  }
  arms_[sketch].statements = *statements;
  out.push_back(make_option(sketch, std::move(sample), origin));
  out.back().statements = *statements;
  return true;
}

void Moves::draft(int count, std::vector<Option>& out) {
  for (int i = 0; i < count && !start_.stop.asked(); ++i) {
    cut_short_ = left_ < kBredShare * kRoundWork;
    if (cut_short_ && i >= static_cast<int>(space_.size())) break;
    Rng rng = next_stream();
    const int s = choose_sketch(rng);
    ++arms_[s].drawn;
    left_ -= work(arms_[s]);
    absl::StatusOr<Sample> drawn = sample(start_, space_[s], rng);
    if (!drawn.ok()) refuse(s, drawn.status());
    if (!drawn.ok() || !add(s, *std::move(drawn), Origin::kDraft, out)) {
      ++arms_[s].failed;
      continue;
    }
    if (use_draft_) credit(s, out.back().draft_us, false);
  }
}

void Moves::credit(int sketch, double time_us, bool measured) {
  if (sketch < 0) return;
  double& best = measured ? arms_[sketch].measured_us : arms_[sketch].drafted_us;
  if (best == 0 || time_us < best) best = time_us;
}

void Moves::breed(const std::vector<const Option*>& parents, int count, std::vector<Option>& out) {
  if (parents.empty()) return;
  const int64_t n = static_cast<int64_t>(parents.size());
  const auto choose = [&](Rng& rng) {
    int64_t best = n - 1;
    for (int i = 0; i < kTournament; ++i) best = std::min(best, rng.below(n));
    return parents[best];
  };
  for (int i = 0; i < count && left_ > 0 && !start_.stop.asked(); ++i) {
    Rng rng = next_stream();
    const Option* a = choose(rng);
    if (a->sketch < 0) continue;
    left_ -= 2 * work(arms_[a->sketch]);   // replayed to the changed step, and from there
    const Sketch& sketch = space_[a->sketch];
    absl::StatusOr<Sample> child = absl::NotFoundError("");
    if (rng.uniform() < kCrossed) {
      const Option* b = choose(rng);
      if (b != a && b->sketch == a->sketch) child = cross(start_, sketch, a->trace, b->trace, rng);
    }
    if (!child.ok()) child = mutate(start_, sketch, a->trace, rng);
    if (child.ok()) add(a->sketch, *std::move(child), Origin::kEvolve, out);
  }
}

void Moves::neighbours(const Option& option, std::vector<Option>& out) {
  if (option.sketch < 0) return;
  for (Sample& sample : lw::neighbours(start_, space_[option.sketch], option.trace)) {
    add(option.sketch, std::move(sample), Origin::kDescent, out);
  }
}

void Moves::adapt(const Trace& foreign, std::vector<Option>& out) {
  for (size_t s = 0; s < space_.size() && !start_.stop.asked(); ++s) {
    absl::StatusOr<Sample> adapted = lw::adapt(start_, space_[s], foreign);
    if (adapted.ok()) add(static_cast<int>(s), *std::move(adapted), Origin::kWarm, out);
  }
}

int Moves::sketch_of(const Trace& trace) const {
  for (size_t s = 0; s < space_.size(); ++s) {
    if (is_of(space_[s], trace)) return static_cast<int>(s);
  }
  return -1;
}

}  // namespace lw::search
