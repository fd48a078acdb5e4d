// The candidates that the search chooses from, and what is known of those tried. Internal to
// src/search.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "cost_model/cost_model.h"
#include "schedules/steps.h"
#include "src/base/rng.h"
#include "src/search/search.h"

namespace lw::search {

// A schedule that could be tried.
struct Option {
  int sketch = -1;  // index into the space; -1: none of them
  Trace trace;
  std::string text;
  std::vector<float> features;
  double draft_us = 0;
  int64_t statements = 0;  // count_statements(); 0: not known
  float score = 0;    // higher is better
  uint64_t kind = 0;  // sketch and register tile: batches are spread over kinds
  Origin origin = Origin::kDraft;
};

// A schedule that was tried.
struct Tried {
  Option option;
  bool failed = false;
  double time_us = 0, ci_low_us = 0, ci_high_us = 0;
  size_t samples = 0;
};

// Makes an option of a replayed trace (scores are given later).
Option make_option(int sketch, Sample sample, Origin origin);

// Doublings of its time that building an option counts as, by what its trial takes more for it: of
// programs that look alike the small ones are tried first. Where measuring takes longer there is
// nothing to be won by that.
float build_handicap(const Option& option);

// Draws options: from the space, from parents, from foreign traces. Deterministic for the seed;
// each draw has a stream of its own, numbered in order.
class Moves {
 public:
  // `use_draft`: what the draft says of draws counts as their sketch's time until one is measured;
  // otherwise a sketch without a time is drawn as often as the best. `space` empty: make_space(start).
  // What start.stop has cut short lacks options.
  Moves(const Nest& start, std::vector<Sketch> space, uint64_t seed, bool use_draft = true);

  const Nest& start() const { return start_; }
  const std::vector<Sketch>& space() const { return space_; }
  int extend(Sketch sketch);               // returns its index
  // Why the latest draw that came to nothing did: its sketch, and what says so. "": none did.
  const std::string& refused() const { return refused_; }
  Rng next_stream() { return Rng(seed_).split(++drawn_); }

  // Draws and children of a program of many stages take long: in a round there are no more of them
  // than some tenths of a second allow, though one of each sketch.
  void begin_round();
  // Whether that has cut the latest call of draft() short.
  bool cut_short() const { return cut_short_; }
  // Draws whose program would be too large are none: they only look fast.
  // `count` tries over the sketches, each sketch in proportion to its weight.
  void draft(int count, std::vector<Option>& out);
  // A child of one or two of `parents` (best first), chosen by tournament.
  void breed(const std::vector<const Option*>& parents, int count, std::vector<Option>& out);
  void neighbours(const Option& option, std::vector<Option>& out);
  void adapt(const Trace& foreign, std::vector<Option>& out);
  // The sketch that the trace is drawn from; -1 when there is none.
  int sketch_of(const Trace& trace) const;
  // A sketch's best time so far (drafted, or measured, which replaces what was drafted).
  void credit(int sketch, double time_us, bool measured);

 private:
  struct Arm {
    double drafted_us = 0, measured_us = 0;
    int drawn = 0, failed = 0;
    int64_t statements = 0;                // of its latest draw
    double work = 0;                       // of another, but for its statements
  };
  int choose_sketch(Rng& rng) const;
  bool add(int sketch, Sample sample, Origin origin, std::vector<Option>& out);
  double work(const Arm& arm) const;
  void refuse(int sketch, const absl::Status& status);

  Nest start_;
  std::vector<Sketch> space_;
  std::vector<Arm> arms_;
  std::string refused_;
  uint64_t seed_;
  bool use_draft_;
  uint64_t drawn_ = 0;
  double left_ = 0;                        // work of the round
  bool cut_short_ = false;
};

}  // namespace lw::search
