// How good a schedule looks before it is measured.
//
// Three things: features (a table of {name, function}; width and schema hash derive from it), the
// draft model (analytic, no training: scores tens of thousands of nests a second, and its argmax is
// the zero-trial answer), and learned models (XGBoost; ranking objective; failures are learned from).
// Pure functions of the nest (which carries the target); thread-safe unless said.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "schedules/nest.h"

namespace lw {

// What features and the draft model look at, computed once per nest in microseconds (analysis.h).
struct Analysis;

struct Feature {
  const char* name;
  float (*value)(const Nest& nest, const Analysis& analysis);
};
const std::vector<Feature>& feature_table();
uint64_t feature_schema();                       // hash of the names in order; stored with models
std::vector<float> features(const Nest& nest);   // one value per feature

// Predicted microseconds of one call on the nest's target with its threads; > 0, deterministic.
double draft_us(const Nest& nest);

// One measured (or failed) candidate to learn from.
struct Example {
  std::vector<float> features;
  uint64_t group = 0;                            // workload: ranking is within a group
  double time_us = 0;                            // ignored when failed
  bool failed = false;
};

class Model {
 public:
  virtual ~Model() = default;
  // Learns from all examples (replaces what it learned from examples before; a pre-trained base stays).
  virtual absl::Status fit(const std::vector<Example>& examples, uint64_t seed) = 0;
  // Higher is better; comparable within one workload only.
  virtual std::vector<float> score(const std::vector<std::vector<float>>& features) const = 0;
  virtual bool trained() const = 0;
};
std::unique_ptr<Model> make_draft_model();       // scores by the feature that holds -log(draft_us)
std::unique_ptr<Model> make_xgboost_model();
absl::Status save_model(const Model& model, const std::string& path);
absl::StatusOr<std::unique_ptr<Model>> load_model(const std::string& path);  // refuses another schema

// Quality of predictions `score` for measured `examples` (formulae: shared reference, section 6.1;
// Ansor, TenSet). Averages over groups, weighted by their size.
struct RankingMetrics {
  double pairwise = 0, peak_at_1 = 0, peak_at_5 = 0, recall_at_30 = 0;
  double random_peak_at_1 = 0, random_peak_at_5 = 0;
  int groups = 0, examples = 0;
};
RankingMetrics evaluate(const std::vector<float>& score, const std::vector<Example>& examples);

}  // namespace lw
