// How good a schedule looks before it is measured.
//
// Three things: features (a table of {name, function}; width and schema hash derive from it), the
// draft model (analytic, no training: scores tens of thousands of nests a second, and its argmax is
// the zero-trial answer), and models that rank on top of it: shipped ones, and those that learn
// (trees/learned.h).
// Pure functions of the nest (which carries the target); thread-safe unless said.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "schedules/nest.h"

namespace lw {

struct Feature {
  const char* name;
  bool predicted = false;                  // made of times or cycles that the draft predicts
  int version = 1;                         // raised when its meaning changes: forests that learned
                                           // from another are refused
};
// The table of a family of machines (cost_model/FAMILY/); its first feature is kDraftFeature.
const std::vector<Feature>& feature_table(std::string_view family = "cpu");
uint64_t feature_schema(std::string_view family = "cpu");  // hash of names and versions in order;
                                                           // stored with models
std::vector<float> features(const Nest& nest);   // one value per feature of its target's family
inline constexpr size_t kDraftFeature = 0;       // log2(draft_us)
// `hash` and what nests have in common that are alike in what is coarse: of those a round measures
// few.
uint64_t feature_kind(uint64_t hash, const Nest& nest, const std::vector<float>& features);

// Predicted microseconds of one call on the nest's target with its threads; > 0, deterministic.
double draft_us(const Nest& nest);

// One measured (or failed) candidate to learn from.
struct Example {
  std::vector<float> features;
  uint64_t group = 0;                            // workload: ranking is within a group
  double time_us = 0;                            // ignored when failed
  bool failed = false;
  double low_us = 0, high_us = 0;                // interval of the time; 0: not known
};

constexpr float kLogitsPerDoubling = 2;          // of a model's score: what half the time is worth

class Model {
 public:
  virtual ~Model() = default;
  // Learns from all examples (replaces what it learned from examples before; a pre-trained base stays).
  // Stopped (kCancelled, kDeadlineExceeded) it knows what it knew.
  virtual absl::Status fit(const std::vector<Example>& examples, uint64_t seed,
                           const Stop& stop = {}) = 0;
  // Higher is better; comparable within one workload only.
  virtual std::vector<float> score(const std::vector<std::vector<float>>& features) const = 0;
  virtual bool trained() const = 0;
};
std::unique_ptr<Model> make_draft_model();       // scores by the feature that holds -log(draft_us)

// What ranks schedules of the nest before anything is measured, and learns nothing: the shipped model
// where it is nearer to the best than the draft, which is for the target's family to say
// (cost::Family); else the draft.
std::unique_ptr<Model> first_model(const Nest& start);

// Quality of predictions `score` for measured `examples` (formulae: shared reference, section 6.1;
// Ansor, TenSet). Averages over groups, weighted by their size. Pairs of which one's time lies
// within the other's interval count for neither side.
struct RankingMetrics {
  double pairwise = 0, peak_at_1 = 0, peak_at_5 = 0, recall_at_30 = 0;
  double best_of_tenth = 0;                // the best of the tenth that scores best / the best of all
  double random_peak_at_1 = 0, random_peak_at_5 = 0;
  int groups = 0, examples = 0;
};
RankingMetrics evaluate(const std::vector<float>& score, const std::vector<Example>& examples);

}  // namespace lw
