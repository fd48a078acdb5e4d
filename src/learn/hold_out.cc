#include "src/learn/hold_out.h"

#include "src/base/check.h"

namespace lw {

Training offline_training() {
  Training training;
  // Chosen by held-out classes; larger or more trees rank these no better.
  training.trees = 200;
  training.depth = 6;
  training.bins = 128;
  training.eta = 0.04;
  training.child_weight = 20;
  training.columns = 0.3;
  training.rows = 0.8;
  return training;
}

absl::StatusOr<std::vector<float>> held_out_scores(const LabelledExamples& examples,
                                                   const Training& training, uint64_t seed) {
  if (examples.kinds.size() < 2)
    return absl::InvalidArgumentError("leaving one class out takes at least two");
  std::vector<float> scores(examples.examples.size());
  for (size_t kind = 0; kind < examples.kinds.size(); ++kind) {
    std::vector<Example> learned;
    std::vector<std::vector<float>> asked;
    std::vector<size_t> positions;
    for (size_t i = 0; i < examples.examples.size(); ++i) {
      if (examples.kind[i] != static_cast<int>(kind)) {
        learned.push_back(examples.examples[i]);
        continue;
      }
      asked.push_back(examples.examples[i].features);
      positions.push_back(i);
    }
    const std::unique_ptr<Model> model = make_xgboost_model(training);
    RETURN_IF_ERROR(model->fit(learned, seed));
    const std::vector<float> answered = model->score(asked);
    for (size_t i = 0; i < positions.size(); ++i) scores[positions[i]] = answered[i];
  }
  return scores;
}

RankingMetrics evaluate_uniform(const LabelledExamples& examples, const std::vector<float>& scores,
                                int kind) {
  CHECK(scores.size() == examples.examples.size());
  std::vector<Example> judged;
  std::vector<float> score;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (!examples.uniform[i] || (kind >= 0 && examples.kind[i] != kind)) continue;
    judged.push_back(examples.examples[i]);
    score.push_back(scores[i]);
  }
  return evaluate(score, judged);
}

}  // namespace lw
