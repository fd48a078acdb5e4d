// Models that learn: gradient-boosted trees, grown by XGBoost, that rank on top of the draft
// (cost_model.h). What only looks up, drafts and builds needs none of it. Pure functions but for the
// files named; thread-safe.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "cost_model/cost_model.h"

namespace lw {

// How forests are grown. The defaults are those of a search, which learns in tens of milliseconds.
struct Training {
  int trees = 50, depth = 6, bins = 32;
  double eta = 0.15, child_weight = 0.5;
  double columns = 0.7, rows = 1;          // share of the features, of the examples, a tree
  // Scores start from the draft's. False: from 0, and predicted features (feature_table()) are not
  // looked at; counts, of instructions or lines moved, still are. Such a model cannot be saved.
  bool draft = true;
};
std::unique_ptr<Model> make_xgboost_model(const Training& training = {});

// Models in files, for the targets of one architecture. Loading refuses what cannot be used:
// kNotFound, kInvalidArgument (no model), kFailedPrecondition (trained on another feature table, or
// for another architecture), kDataLoss (damaged or cut off). A loaded model is the base of what it
// then learns.
absl::Status save_model(const Model& model, const std::string& path,
                        std::string_view architecture);
absl::StatusOr<std::unique_ptr<Model>> load_model(const std::string& path,
                                                  std::string_view architecture);
// The model that comes with the program for targets of the architecture (the file
// cost_model/FAMILY/shipped.model); errors as load_model's.
absl::StatusOr<std::unique_ptr<Model>> shipped_model(std::string_view architecture);
// What a search begins with where nobody names another model: first_model() where that is the
// shipped one, else one that knows nothing yet; it learns.
std::unique_ptr<Model> learning_model(const Nest& start);

}  // namespace lw
