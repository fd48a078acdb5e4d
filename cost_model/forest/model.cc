// Models that do not learn: the draft, and the draft with the forests that come with the program.
#include "cost_model/forest/model.h"

#include <memory>
#include <utility>

#include "cost_model/cost_model.h"
#include "cost_model/family.h"
#include "schedules/targets/target.h"

namespace lw {
namespace {

class FixedModel : public Model {
 public:
  explicit FixedModel(Forests forests) : forests_(std::move(forests)) {}

  absl::Status fit(const std::vector<Example>&, uint64_t, const Stop&) override {
    return absl::OkStatus();
  }
  std::vector<float> score(const std::vector<std::vector<float>>& features) const override {
    std::vector<float> scores;
    for (const std::vector<float>& row : features) scores.push_back(ranked(row, forests_));
    return scores;
  }
  bool trained() const override { return !forests_.empty(); }

 private:
  const Forests forests_;
};

}  // namespace

float ranked(const std::vector<float>& features, const Forests& forests) {
  float score = -kLogitsPerDoubling * features[kDraftFeature];
  for (const std::shared_ptr<const Forest>& forest : forests) score += forest->score(features.data());
  return score;
}

std::unique_ptr<Model> make_draft_model() { return std::make_unique<FixedModel>(Forests()); }

std::unique_ptr<Model> first_model(const Nest& start) {
  const std::string& architecture = start.target->architecture;
  if (cost::begins_shipped(architecture)) {
    absl::StatusOr<Forests> shipped = shipped_forests(architecture);
    if (shipped.ok()) return std::make_unique<FixedModel>(*std::move(shipped));
  }
  return make_draft_model();
}

}  // namespace lw
