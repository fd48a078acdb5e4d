// The search: what to try next.
//
// A pool of options, scored by the model (which starts from the draft), is kept fresh: draws from
// the sketches, children of the best tried and of the best scored. A batch takes the best of the
// pool, few of each kind of register tile, a tenth at random. Towards the end, or when nothing
// improves, the neighbours of the best two come first (coordinate descent). Nothing is tried twice:
// neither a trace nor a kernel, which another trace may share. A round (500 draws, later 150; 240
// children; scoring; lowering of 16) takes 40 to 90 ms.
#include "src/search/search.h"

#include <algorithm>
#include <cmath>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "schedules/parts.h"
#include "src/base/check.h"
#include "src/base/hash.h"
#include "src/base/message.h"
#include "src/lower/lower.h"
#include "src/search/pool.h"

namespace lw {

using search::Moves;
using search::Option;
using search::Tried;

namespace {

constexpr size_t kPool = 400;      // options kept
constexpr int kRoundDrafts = 8;    // rounds over which the first drafts are spread
constexpr int kLaterDrafts = 150;  // a round, after the first drafts
constexpr int kChildren = 240;     // a round
constexpr int kZeroDrafts = 500, kZeroGenerations = 3, kZeroChildren = 100;
constexpr int64_t kZeroStatements = 4000;  // 0.2 to 0.5 s to build
constexpr size_t kParents = 24;
constexpr int kRandomEvery = 10;       // one proposal in so many is random
constexpr size_t kFirstFit = 12;       // results before the model is fitted
constexpr double kDescentShare = 0.2;  // of the trials that there will be, the last ones
constexpr int kStagnant = 48;          // results without a better one: descend too
constexpr int kWarmTries = 4;          // adapted traces a batch

Nest stopped_by(Nest nest, const Stop& stop) {
  nest.stop = stop;
  return nest;
}

constexpr char kNoSketch[] = "no rule has a sketch of it";
constexpr char kNoneLowered[] = "none of the rules' schedules can be lowered";

bool better(const Option* a, const Option* b) {
  return a->score != b->score ? a->score > b->score : a->text < b->text;
}

}  // namespace

struct Search::Impl {
  Impl(Nest start, SearchOptions o, std::unique_ptr<Model> m)
      : options(std::move(o)),
        model(std::move(m)),
        moves(stopped_by(std::move(start), options.stop), options.space, options.seed,
              options.use_draft && !options.random_only) {}

  SearchOptions options;
  std::unique_ptr<Model> model;
  Moves moves;
  std::vector<Option> pool;  // sorted by score, best first
  std::vector<Option> descent, warm;
  std::vector<Tried> tried;
  absl::flat_hash_map<std::string, int> tried_at;  // by trace text
  absl::flat_hash_map<std::string, Option> in_flight;
  absl::flat_hash_set<std::string> dropped;  // equal to another's kernel, or not lowered
  absl::flat_hash_set<uint64_t> kernels;     // tried or in flight
  bool lowered = false, fell_back = false;
  std::string refused, reason;               // why the latest option was not lowered; the one before
                                             // the last resort
  int64_t deduplicated = 0;
  int drafted = 0, proposed = 0;
  size_t fitted = 0;           // results at the last fit
  int best = -1, best_at = 0;  // into `tried`; number of results when it came
  int descended_from[2] = {-1, -1};

  bool known(const std::string& text) const {
    return tried_at.contains(text) || in_flight.contains(text) || dropped.contains(text);
  }

  void score(std::vector<Option>& scored) const {
    if (scored.empty()) return;
    if (options.use_model && model != nullptr && model->trained()) {
      std::vector<std::vector<float>> rows;
      for (const Option& option : scored) rows.push_back(option.features);
      const std::vector<float> scores = model->score(rows);
      for (size_t i = 0; i < scored.size(); ++i)
        scored[i].score = scores[i] - kLogitsPerDoubling * search::build_handicap(scored[i]);
      return;
    }
    for (Option& option : scored) {
      const double by_chance = static_cast<double>(hash64(option.text, options.seed) >> 40);
      const double drafted = -std::log2(option.draft_us) - search::build_handicap(option);
      option.score = static_cast<float>(options.use_draft ? drafted : by_chance);
    }
  }

  // Best first, each text once, nothing known; at most kPool.
  void merge(std::vector<Option> fresh) {
    for (Option& option : fresh) pool.push_back(std::move(option));
    std::erase_if(pool, [&](const Option& option) { return known(option.text); });
    score(pool);
    std::sort(pool.begin(), pool.end(),
              [](const Option& a, const Option& b) { return better(&a, &b); });
    pool.erase(std::unique(pool.begin(), pool.end(),
                           [](const Option& a, const Option& b) { return a.text == b.text; }),
               pool.end());
    if (pool.size() > kPool) pool.resize(kPool);
  }

  // The best tried and the best of the pool, alternating.
  std::vector<const Option*> parents() const {
    std::vector<const Tried*> fastest;
    for (const Tried& t : tried) {
      if (!t.failed && t.option.sketch >= 0) fastest.push_back(&t);
    }
    std::stable_sort(fastest.begin(), fastest.end(),
                     [](const Tried* a, const Tried* b) { return a->time_us < b->time_us; });
    std::vector<const Option*> result;
    for (size_t i = 0; i < kParents; ++i) {
      if (i < fastest.size()) result.push_back(&fastest[i]->option);
      if (i < pool.size()) result.push_back(&pool[i]);
    }
    return result;
  }

  void refill() {
    moves.begin_round();
    std::vector<Option> fresh;
    const int share = std::max(1, options.drafts / kRoundDrafts);
    const int count = drafted < options.drafts ? std::min(share, options.drafts - drafted)
                                               : std::min(kLaterDrafts, share);
    drafted += count;
    moves.draft(count, fresh);
    if (options.use_evolution) moves.breed(parents(), std::min(kChildren, share), fresh);
    merge(std::move(fresh));
  }

  bool descending(int trials_left) const {
    if (!options.use_descent || best < 0) return false;
    const bool late = trials_left <= kDescentShare * (proposed + trials_left);
    return late || static_cast<int>(tried.size()) - best_at >= kStagnant;
  }

  // The two fastest of different traces: indices into `tried`, -1 when there are fewer.
  std::pair<int, int> leaders() const {
    std::pair<int, int> two{-1, -1};
    for (int i = 0; i < static_cast<int>(tried.size()); ++i) {
      if (tried[i].failed) continue;
      if (two.first < 0 || tried[i].time_us < tried[two.first].time_us) {
        two.second = two.first;
        two.first = i;
      } else if (two.second < 0 || tried[i].time_us < tried[two.second].time_us) {
        two.second = i;
      }
    }
    return two;
  }

  // Neighbours of the leaders, best scored first.
  void descend() {
    const auto [first, second] = leaders();
    if (first != descended_from[0] || second != descended_from[1]) {
      descended_from[0] = first, descended_from[1] = second;
      descent.clear();
      for (int leader : {first, second}) {
        if (leader >= 0) moves.neighbours(tried[leader].option, descent);
      }
    }
    std::erase_if(descent, [&](const Option& option) { return known(option.text); });
    score(descent);
    std::sort(descent.begin(), descent.end(),
              [](const Option& a, const Option& b) { return better(&a, &b); });
  }

  // Lowers and registers a proposal; false when its kernel is known or cannot be made.
  bool take(const Option& option, Origin origin, std::vector<Proposal>& batch) {
    if (known(option.text)) return false;
    absl::StatusOr<Nest> nest = replay(moves.start(), option.trace);
    absl::StatusOr<Kernel> kernel = nest.ok() ? lower(*nest) : nest.status();
    if (!kernel.ok()) {
      const bool drawn = option.sketch >= 0;
      refused = concat("'", drawn ? moves.space()[option.sketch].name : "a stored schedule", "': ",
                       std::string(kernel.status().message()));
      dropped.insert(option.text);
      return false;
    }
    lowered = true;
    const uint64_t kernel_hash = hash(*kernel);
    if (!kernels.insert(kernel_hash).second) {
      ++deduplicated;
      dropped.insert(option.text);
      return false;
    }
    Proposal proposal;
    proposal.trace = option.trace;
    proposal.text = option.text;
    proposal.kernel = std::make_shared<const Kernel>(*std::move(kernel));
    proposal.features = option.features;
    proposal.draft_us = option.draft_us;
    proposal.origin = origin;
    proposal.kernel_hash = kernel_hash;
    batch.push_back(std::move(proposal));
    in_flight.emplace(option.text, option);
    ++proposed;
    return true;
  }

  // The best option whose kind is not yet taken too often.
  bool take_best(std::vector<Option>& from, size_t& at, absl::flat_hash_map<uint64_t, int>& kinds,
                 int most, std::vector<Proposal>& batch) {
    for (; at < from.size(); ++at) {
      const Option& option = from[at];
      if (kinds[option.kind] >= most || known(option.text)) continue;
      if (!take(option, option.origin, batch)) continue;
      ++kinds[option.kind];
      return true;
    }
    return false;
  }

  // Nothing that the rules say can be lowered: once, what is left is to tile each stage by itself.
  bool fall_back() {
    if (lowered || fell_back || !options.space.empty()) return false;
    reason = refused.empty() ? moves.refused() : refused;
    moves.extend(last_resort(moves.start()));
    return fell_back = true;
  }

  // Why the space is the last resort alone; "" where it is not.
  std::string only_last_resort() const {
    const std::vector<Sketch>& space = moves.space();
    const bool only = std::all_of(space.begin(), space.end(),
                                  [](const Sketch& sketch) { return sketch.last_resort; });
    if (only) return kNoSketch;
    return fell_back ? concat(kNoneLowered, ": ", reason) : "";
  }

  bool take_random(std::vector<Proposal>& batch) {
    for (int attempt = 0; attempt < 20; ++attempt) {
      std::vector<Option> drawn;
      moves.draft(1, drawn);
      if (!drawn.empty() && take(drawn[0], Origin::kRandom, batch)) return true;
    }
    return false;
  }

  std::vector<Proposal> propose(int count, int trials_left) {
    std::vector<Proposal> batch;
    const auto wanted = static_cast<size_t>(std::max(0, count));
    if (options.random_only) {
      while (batch.size() < wanted && take_random(batch)) {
      }
      return batch;
    }
    refill();
    const size_t early = std::min(wanted, static_cast<size_t>(kWarmTries));
    while (!warm.empty() && batch.size() < early) {
      take(warm.front(), Origin::kWarm, batch);
      warm.erase(warm.begin());
    }
    const bool descends = descending(trials_left);
    if (descends) descend();
    absl::flat_hash_map<uint64_t, int> kinds;
    size_t in_descent = 0, in_pool = 0;
    int most = std::max(2, count / 4);
    while (batch.size() < wanted) {
      const bool by_chance = proposed % kRandomEvery == kRandomEvery - 1;
      if (by_chance && !descends && take_random(batch)) continue;
      // One in four stays with the pool even while descending.
      const bool local = descends && batch.size() % 4 != 3;
      if (local && take_best(descent, in_descent, kinds, count, batch)) continue;
      if (take_best(pool, in_pool, kinds, most, batch)) continue;
      if (most < count) {
        most = count, in_pool = 0;  // rather much of one kind than too few
      } else if (!take_best(descent, in_descent, kinds, count, batch) && !take_random(batch)) {
        break;
      }
    }
    if (batch.empty() && wanted > 0 && fall_back()) take_random(batch);
    return batch;
  }

  // Hill climbing on the model's score before anything was measured.
  absl::StatusOr<Proposal> zero_trial() {
    moves.begin_round();
    std::vector<Option> fresh;
    moves.draft(kZeroDrafts, fresh);
    drafted += kZeroDrafts;
    merge(std::move(fresh));
    for (int g = 0; g < kZeroGenerations; ++g) {
      std::vector<Option> children;
      moves.breed(parents(), kZeroChildren, children);
      merge(std::move(children));
    }
    std::vector<Proposal> batch;
    RETURN_IF_ERROR(options.stop.status("the search for a first schedule"));
    // The first answer should not be long in coming.
    std::stable_sort(pool.begin(), pool.end(), [](const Option& a, const Option& b) {
      return std::max(a.statements, kZeroStatements) < std::max(b.statements, kZeroStatements);
    });
    for (size_t i = 0; i < pool.size(); ++i) {
      if (take(pool[i], Origin::kZero, batch)) return std::move(batch[0]);
    }
    if (take_random(batch) || (fall_back() && take_random(batch))) {
      batch[0].origin = Origin::kZero;
      return std::move(batch[0]);
    }
    RETURN_IF_ERROR(options.stop.status("the search for a first schedule"));
    return absl::NotFoundError(concat("no schedule of the program can be lowered; of the sketch ",
                                      refused.empty() ? moves.refused() : refused));
  }

  void observe_one(const Measurement& m) {
    if (is_retried(m.verdict)) {
      in_flight.erase(m.trace);            // it may be proposed again
      kernels.erase(m.kernel_hash);
      return;
    }
    kernels.insert(m.kernel_hash);
    if (const auto known = tried_at.find(m.trace); known != tried_at.end()) {
      update(tried[known->second], m);
    } else {
      Tried entry;
      if (auto flying = in_flight.find(m.trace); flying != in_flight.end()) {
        entry.option = std::move(flying->second);
        in_flight.erase(flying);
      } else if (!replayed(m.trace, entry.option)) {
        dropped.insert(m.trace);
        return;
      }
      update(entry, m);
      tried_at.emplace(m.trace, static_cast<int>(tried.size()));
      tried.push_back(std::move(entry));
    }
    note_best(tried_at[m.trace]);
  }

  static void update(Tried& entry, const Measurement& m) {
    if (m.verdict != Verdict::kOk) {
      entry.failed = true;
    } else if (m.samples_us.size() >= entry.samples) {
      entry.time_us = m.time_us, entry.ci_low_us = m.ci_low_us, entry.ci_high_us = m.ci_high_us;
      entry.samples = m.samples_us.size();
    }
  }

  void note_best(int i) {
    const Tried& entry = tried[i];
    if (entry.failed) return;
    if (!options.random_only) moves.credit(entry.option.sketch, entry.time_us, true);
    if (best < 0 || tried[best].failed || entry.time_us < tried[best].time_us) {
      best = i;
      best_at = static_cast<int>(tried.size());
    }
  }

  absl::StatusOr<uint64_t> adopt(const std::string& text, bool again) {
    if (in_flight.contains(text) || (tried_at.contains(text) && !again))
      return absl::AlreadyExistsError("measured, or in flight");
    ASSIGN_OR_RETURN(const Trace trace, parse_trace(text));
    ASSIGN_OR_RETURN(const Nest nest, replay(moves.start(), trace));
    ASSIGN_OR_RETURN(const Kernel kernel, lower(nest));
    const uint64_t kernel_hash = hash(kernel);
    Option option;
    if (again || !replayed(text, option)) return kernel_hash;
    kernels.insert(kernel_hash);
    in_flight.emplace(text, std::move(option));
    ++proposed;
    return kernel_hash;
  }

  bool replayed(const std::string& text, Option& option) const {
    absl::StatusOr<Trace> trace = parse_trace(text);
    if (!trace.ok()) return false;
    absl::StatusOr<Nest> nest = replay(moves.start(), *trace);
    if (!nest.ok()) return false;
    const int sketch = moves.sketch_of(*trace);
    option = search::make_option(sketch, {*std::move(trace), *std::move(nest)}, Origin::kWarm);
    option.text = text;
    return true;
  }

  void learn() {
    if (!options.use_model || model == nullptr || options.random_only || tried.size() < kFirstFit)
      return;
    if (tried.size() < fitted + std::max<size_t>(8, fitted / 10)) return;
    std::vector<Example> examples;
    for (const Tried& t : tried) examples.push_back({t.option.features, 0, t.time_us, t.failed});
    if (const absl::Status status = model->fit(examples, options.seed, options.stop);
        !status.ok()) {
      CHECK(options.stop.asked());
      return;
    }
    fitted = tried.size();
  }
};

Search::Search(Nest start, SearchOptions options, std::unique_ptr<Model> model)
    : impl_(std::make_unique<Impl>(std::move(start), std::move(options), std::move(model))) {}
Search::~Search() = default;

void Search::observe(const std::vector<Measurement>& results) {
  for (const Measurement& m : results) {
    if (impl_->options.stop.asked()) return;
    impl_->observe_one(m);
  }
  impl_->learn();
}

absl::StatusOr<uint64_t> Search::adopt(const std::string& trace, bool again) {
  return impl_->adopt(trace, again);
}

void Search::warm_start(const std::vector<Trace>& foreign) {
  if (!impl_->options.use_warm || impl_->options.random_only) return;
  for (const Trace& trace : foreign) {
    if (impl_->options.stop.asked()) return;
    std::vector<Option> adapted;
    impl_->moves.adapt(trace, adapted);
    impl_->score(adapted);
    const auto top =
        std::max_element(adapted.begin(), adapted.end(),
                         [](const Option& a, const Option& b) { return better(&b, &a); });
    if (top != adapted.end()) impl_->warm.push_back(std::move(*top));
  }
}

void Search::hint(const std::vector<std::string>& traces) {
  if (!impl_->options.use_warm || impl_->options.random_only) return;
  std::vector<Option> hints;
  for (const std::string& trace : traces) {
    if (impl_->options.stop.asked()) return;
    Option option;
    if (!impl_->replayed(trace, option)) continue;
    // So that it has neighbours.
    Moves& moves = impl_->moves;
    if (option.sketch < 0) option.sketch = moves.extend(sketch_of(moves.start(), option.trace));
    hints.push_back(std::move(option));
  }
  impl_->score(hints);
  std::move(hints.begin(), hints.end(), std::inserter(impl_->warm, impl_->warm.begin()));
}

std::vector<Proposal> Search::propose(int count, int trials_left) {
  return impl_->propose(count, trials_left);
}
absl::StatusOr<Proposal> Search::zero_trial() { return impl_->zero_trial(); }
bool Search::rounds_are_long() const { return impl_->moves.cut_short(); }
int64_t Search::deduplicated() const { return impl_->deduplicated; }
std::string Search::only_last_resort() const { return impl_->only_last_resort(); }

// A search draws from the last resort only where it has nothing else.
std::string only_last_resort(const Nest& start, const Trace& best) {
  if (!is_of(last_resort(start), best)) return "";
  const std::vector<Sketch> space = make_space(start);
  const auto ruled = [&](const Sketch& sketch) {
    return !sketch.last_resort && is_of(sketch, best);
  };
  if (std::any_of(space.begin(), space.end(), ruled)) return "";
  return space[0].last_resort ? kNoSketch : kNoneLowered;
}

std::string last_resort_note(const std::string& why) {
  return concat("only the last resort was searched, each stage tiled and vectorized by itself: ", why,
                " (see `loopwright space --why`)");
}

std::vector<Proposal> Search::finalists(int count) {
  std::vector<const Tried*> leaders;
  for (const Tried& t : impl_->tried) {
    if (!t.failed) leaders.push_back(&t);
  }
  std::stable_sort(leaders.begin(), leaders.end(),
                   [](const Tried* a, const Tried* b) { return a->time_us < b->time_us; });
  std::vector<Proposal> result;
  for (const Tried* t : leaders) {
    const bool apart =
        t->ci_low_us > leaders[0]->ci_high_us && t->time_us > 1.03 * leaders[0]->time_us;
    if (static_cast<int>(result.size()) >= count || apart) break;
    absl::StatusOr<Nest> nest = replay(impl_->moves.start(), t->option.trace);
    absl::StatusOr<Kernel> kernel = nest.ok() ? lower(*nest) : nest.status();
    if (!kernel.ok()) continue;
    const uint64_t kernel_hash = hash(*kernel);
    result.push_back({t->option.trace, t->option.text,
                      std::make_shared<const Kernel>(*std::move(kernel)), t->option.features,
                      t->option.draft_us, Origin::kFinalist, kernel_hash});
  }
  return result;
}

}  // namespace lw
