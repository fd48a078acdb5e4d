// The score that a model starts from is the draft's own ranking plus what a pre-trained base adds
// (forest/model.h); trees learn the residual (rank_loss.h says of what).
#include "cost_model/trees/learned.h"

#include <utility>

#include "cost_model/family.h"
#include "cost_model/forest/model.h"
#include "cost_model/forest/model_file.h"
#include "cost_model/trees/train.h"
#include "schedules/targets/target.h"
#include "src/base/check.h"
#include "src/base/message.h"

namespace lw {
namespace {

void hide_predictions(std::vector<float>& features) {
  const std::vector<Feature>& table = feature_table();
  for (size_t i = 0; i < table.size(); ++i) {
    if (table[i].predicted) features[i] = 0;
  }
}

class XgboostModel : public Model {
 public:
  explicit XgboostModel(const Training& training, Forests base = {})
      : training_(training), base_(std::move(base)) {}

  absl::Status fit(const std::vector<Example>& examples, uint64_t seed,
                   const Stop& stop) override {
    if (examples.size() < 2) return absl::OkStatus();
    std::vector<float> margin;
    for (const Example& e : examples) {
      if (e.features.size() != examples[0].features.size())
        return absl::InvalidArgumentError("features of another schema");
      margin.push_back(base_score(e.features));
    }
    std::vector<Example> seen;             // without the draft
    if (!training_.draft) seen = examples;
    for (Example& e : seen) hide_predictions(e.features);
    ASSIGN_OR_RETURN(Forest grown, grow(training_.draft ? examples : seen, std::move(margin),
                                        training_, seed, stop));
    residual_ = std::make_shared<const Forest>(std::move(grown));
    return absl::OkStatus();
  }

  std::vector<float> score(const std::vector<std::vector<float>>& features) const override {
    std::vector<float> scores;
    for (const std::vector<float>& row : features) {
      scores.push_back(base_score(row) + residual_score(row));
    }
    return scores;
  }

  bool trained() const override { return residual_ != nullptr || !base_.empty(); }
  bool starts_from_draft() const { return training_.draft; }

  Forests forests() const {
    Forests all = base_;
    if (residual_ != nullptr) all.push_back(residual_);
    return all;
  }

 private:
  float base_score(const std::vector<float>& row) const {
    return training_.draft ? ranked(row, base_) : 0;
  }

  float residual_score(const std::vector<float>& row) const {
    if (residual_ == nullptr) return 0;
    if (training_.draft) return residual_->score(row.data());
    std::vector<float> seen = row;
    hide_predictions(seen);
    return residual_->score(seen.data());
  }

  const Training training_;
  const Forests base_;
  std::shared_ptr<const Forest> residual_;
};

}  // namespace

std::unique_ptr<Model> make_xgboost_model(const Training& training) {
  return std::make_unique<XgboostModel>(training);
}

absl::Status save_model(const Model& model, const std::string& path,
                        std::string_view architecture) {
  const auto* trees = dynamic_cast<const XgboostModel*>(&model);
  if (trees == nullptr) return absl::InvalidArgumentError("the draft model has nothing to save");
  if (!trees->starts_from_draft())
    return absl::InvalidArgumentError("a model that does without the draft is not saved");
  return write_model_file(trees->forests(), path, architecture);
}

absl::StatusOr<std::unique_ptr<Model>> load_model(const std::string& path,
                                                  std::string_view architecture) {
  ASSIGN_OR_RETURN(Forests base, read_model_file(path, architecture));
  return std::make_unique<XgboostModel>(Training(), std::move(base));
}

absl::StatusOr<std::unique_ptr<Model>> shipped_model(std::string_view architecture) {
  ASSIGN_OR_RETURN(Forests base, shipped_forests(architecture));
  return std::make_unique<XgboostModel>(Training(), std::move(base));
}

std::unique_ptr<Model> learning_model(const Nest& start) {
  const std::string& architecture = start.target->architecture;
  if (cost::begins_shipped(architecture)) {
    absl::StatusOr<std::unique_ptr<Model>> shipped = shipped_model(architecture);
    if (shipped.ok()) return *std::move(shipped);
  }
  return make_xgboost_model();
}

}  // namespace lw
