// Learned models: gradient-boosted trees (XGBoost, through its C API) that rank on top of the
// draft.
//
// The margin a model starts from is the draft's own ranking, -kDraftScale * log2(draft_us), plus
// what a pre-trained base adds; trees learn the residual. The loss is RankNet's: for pairs of one
// workload, log(1 + exp(s_worse - s_better)), weighted by how far apart their labels (best time /
// time, 0 for a failure) are. So failures are learned from, and times are only compared within a
// workload. Its gradients are computed here and handed to XGBoost, which makes the fit independent
// of the library's own sampling of pairs: the same examples and seed give the same trees. 200
// examples, 60 trees of depth 6: about 30 ms on one core.
#include <xgboost/c_api.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "cost_model/cost_model.h"
#include "src/base/check.h"
#include "src/base/rng.h"
#include "src/expr/message.h"

namespace lw {
namespace {

constexpr int kTrees = 50;
constexpr int kPartners = 16;      // pairs drawn for each example a tree
constexpr size_t kAllPairs = 64;   // groups up to this size use every pair
constexpr double kDraftScale = 2;  // logits a factor of two is worth
constexpr char kMagic[] = "loopwright model 1";

absl::Status check(int code, std::string_view what) {
  if (code == 0) return absl::OkStatus();
  return absl::InternalError(concat(what, ": ", XGBGetLastError()));
}

// Owners of XGBoost's handles.
struct Matrix {
  DMatrixHandle handle = nullptr;
  Matrix() = default;
  Matrix(const Matrix&) = delete;
  Matrix& operator=(const Matrix&) = delete;
  ~Matrix() {
    if (handle != nullptr) XGDMatrixFree(handle);
  }
};
struct Booster {
  BoosterHandle handle = nullptr;
  Booster() = default;
  Booster(const Booster&) = delete;
  Booster& operator=(const Booster&) = delete;
  ~Booster() {
    if (handle != nullptr) XGBoosterFree(handle);
  }
};

absl::Status make_matrix(const std::vector<const std::vector<float>*>& rows,
                         const std::vector<float>& margin, Matrix& matrix) {
  const size_t width = feature_table().size();
  std::vector<float> flat;
  flat.reserve(rows.size() * width);
  for (const std::vector<float>* row : rows) {
    if (row->size() != width) return absl::InvalidArgumentError("features of another schema");
    flat.insert(flat.end(), row->begin(), row->end());
  }
  RETURN_IF_ERROR(check(
      XGDMatrixCreateFromMat(flat.data(), rows.size(), width, NAN, &matrix.handle), "matrix"));
  return check(XGDMatrixSetFloatInfo(matrix.handle, "base_margin", margin.data(), margin.size()),
               "margin");
}

absl::Status predict(BoosterHandle booster, DMatrixHandle matrix, std::vector<float>& out) {
  const char* config =
      "{\"type\": 1, \"training\": false, \"iteration_begin\": 0, \"iteration_end\": 0, "
      "\"strict_shape\": false}";
  const bst_ulong* shape = nullptr;
  bst_ulong dimensions = 0;
  const float* result = nullptr;
  RETURN_IF_ERROR(
      check(XGBoosterPredictFromDMatrix(booster, matrix, config, &shape, &dimensions, &result),
            "predict"));
  bst_ulong count = 1;
  for (bst_ulong d = 0; d < dimensions; ++d) count *= shape[d];
  out.assign(result, result + count);
  return absl::OkStatus();
}

int draft_feature() {
  static const int position = [] {
    const std::vector<Feature>& table = feature_table();
    for (size_t i = 0; i < table.size(); ++i) {
      if (std::string_view(table[i].name) == "log_draft_us") return static_cast<int>(i);
    }
    CHECK(false);
  }();
  return position;
}

float draft_margin(const std::vector<float>& features) {
  return static_cast<float>(-kDraftScale) * features[draft_feature()];
}

class DraftModel : public Model {
 public:
  absl::Status fit(const std::vector<Example>&, uint64_t) override { return absl::OkStatus(); }
  std::vector<float> score(const std::vector<std::vector<float>>& features) const override {
    std::vector<float> scores;
    for (const std::vector<float>& row : features) scores.push_back(draft_margin(row));
    return scores;
  }
  bool trained() const override { return false; }
};

// Pairs of one workload: gradients of the ranking loss.
class RankLoss {
 public:
  explicit RankLoss(const std::vector<Example>& examples) {
    std::map<uint64_t, std::vector<size_t>> groups;
    std::map<uint64_t, double> best;
    for (size_t i = 0; i < examples.size(); ++i) {
      groups[examples[i].group].push_back(i);
      if (examples[i].failed) continue;
      const auto [it, added] = best.emplace(examples[i].group, examples[i].time_us);
      if (!added) it->second = std::min(it->second, examples[i].time_us);
    }
    label_.resize(examples.size());
    for (const auto& [id, members] : groups) {
      for (size_t i : members) label_[i] = examples[i].failed ? 0 : best[id] / examples[i].time_us;
      groups_.push_back(members);
    }
  }

  void gradients(const std::vector<float>& margin, Rng rng, std::vector<float>& gradient,
                 std::vector<float>& hessian) {
    gradient.assign(margin.size(), 0);
    hessian.assign(margin.size(), 1e-6f);
    for (const std::vector<size_t>& members : groups_) {
      const size_t n = members.size();
      if (n <= kAllPairs) {
        for (size_t a = 0; a < n; ++a) {
          for (size_t b = a + 1; b < n; ++b) add(members[a], members[b], margin, gradient, hessian);
        }
        continue;
      }
      for (size_t a = 0; a < n; ++a) {
        for (int p = 0; p < kPartners; ++p) {
          const size_t b = members[rng.below(static_cast<int64_t>(n))];
          if (b != members[a]) add(members[a], b, margin, gradient, hessian);
        }
      }
    }
  }

 private:
  void add(size_t a, size_t b, const std::vector<float>& margin, std::vector<float>& gradient,
           std::vector<float>& hessian) const {
    if (label_[a] == label_[b]) return;
    if (label_[a] < label_[b]) std::swap(a, b);
    // Pairs near the top count more: what matters is the order of the fast ones.
    const double weight = (label_[a] - label_[b]) * (0.2 + label_[a]);
    const double wrong = 1 / (1 + std::exp(static_cast<double>(margin[a]) - margin[b]));
    gradient[a] -= static_cast<float>(weight * wrong);
    gradient[b] += static_cast<float>(weight * wrong);
    const float curvature = static_cast<float>(weight * std::max(wrong * (1 - wrong), 1e-3));
    hessian[a] += curvature;
    hessian[b] += curvature;
  }

  std::vector<std::vector<size_t>> groups_;
  std::vector<double> label_;
};

class XgboostModel : public Model {
 public:
  absl::Status fit(const std::vector<Example>& examples, uint64_t seed) override {
    if (examples.size() < 2) return absl::OkStatus();
    std::vector<const std::vector<float>*> rows;
    for (const Example& e : examples) rows.push_back(&e.features);
    Matrix matrix;
    ASSIGN_OR_RETURN(const std::vector<float> margin, base_margin(rows));
    RETURN_IF_ERROR(make_matrix(rows, margin, matrix));
    auto booster = std::make_unique<Booster>();
    RETURN_IF_ERROR(check(XGBoosterCreate(&matrix.handle, 1, &booster->handle), "booster"));
    const std::pair<const char*, std::string> parameters[] = {
        {"booster", "gbtree"},
        {"objective", "reg:squarederror"},
        {"base_score", "0"},
        {"tree_method", "hist"},
        {"max_depth", "6"},
        {"max_bin", "32"},
        {"eta", "0.15"},
        {"lambda", "1"},
        {"gamma", "0.01"},
        {"min_child_weight", "0.5"},
        {"colsample_bytree", "0.7"},
        {"nthread", "1"},
        {"verbosity", "0"},
        {"seed", std::to_string(seed & 0x7fffffff)}};
    for (const auto& [name, value] : parameters) {
      RETURN_IF_ERROR(check(XGBoosterSetParam(booster->handle, name, value.c_str()), name));
    }
    RankLoss loss(examples);
    std::vector<float> current = margin, gradient, hessian;
    for (int tree = 0; tree < kTrees; ++tree) {
      loss.gradients(current, Rng(seed).split(tree), gradient, hessian);
      RETURN_IF_ERROR(check(XGBoosterBoostOneIter(booster->handle, matrix.handle, gradient.data(),
                                                  hessian.data(), gradient.size()),
                            "boost"));
      RETURN_IF_ERROR(predict(booster->handle, matrix.handle, current));
    }
    residual_ = std::move(booster);
    return absl::OkStatus();
  }

  std::vector<float> score(const std::vector<std::vector<float>>& features) const override {
    if (features.empty()) return {};
    std::vector<const std::vector<float>*> rows;
    for (const std::vector<float>& row : features) rows.push_back(&row);
    absl::StatusOr<std::vector<float>> margin = base_margin(rows);
    CHECK(margin.ok());
    if (residual_ == nullptr) return *std::move(margin);
    return *with(*residual_, rows, *margin);
  }

  bool trained() const override { return residual_ != nullptr || !base_.empty(); }

  // The forests, each as its length and its bytes.
  absl::Status save(std::ostream& out) const {
    std::vector<const Booster*> forests;
    for (const std::unique_ptr<Booster>& booster : base_) forests.push_back(booster.get());
    if (residual_ != nullptr) forests.push_back(residual_.get());
    out << forests.size() << "\n";
    for (const Booster* booster : forests) {
      bst_ulong size = 0;
      const char* bytes = nullptr;
      const char* config = "{\"format\": \"ubj\"}";
      RETURN_IF_ERROR(
          check(XGBoosterSaveModelToBuffer(booster->handle, config, &size, &bytes), "save"));
      out << size << "\n";
      out.write(bytes, static_cast<std::streamsize>(size));
    }
    return absl::OkStatus();
  }

  // What was learned becomes the base of what will be.
  absl::Status load(std::istream& in) {
    size_t forests = 0;
    if (!(in >> forests) || forests > 1000) return absl::DataLossError("damaged");
    for (size_t f = 0; f < forests; ++f) {
      size_t size = 0;
      if (!(in >> size) || in.get() != '\n' || size > (size_t{1} << 30))
        return absl::DataLossError("damaged");
      std::string bytes(size, '\0');
      if (!in.read(bytes.data(), static_cast<std::streamsize>(size)))
        return absl::DataLossError("cut off");
      auto booster = std::make_unique<Booster>();
      RETURN_IF_ERROR(check(XGBoosterCreate(nullptr, 0, &booster->handle), "booster"));
      RETURN_IF_ERROR(check(XGBoosterSetParam(booster->handle, "nthread", "1"), "nthread"));
      RETURN_IF_ERROR(
          check(XGBoosterLoadModelFromBuffer(booster->handle, bytes.data(), size), "load"));
      base_.push_back(std::move(booster));
    }
    return absl::OkStatus();
  }

 private:
  static absl::StatusOr<std::vector<float>> with(const Booster& booster,
                                                 const std::vector<const std::vector<float>*>& rows,
                                                 const std::vector<float>& margin) {
    Matrix matrix;
    RETURN_IF_ERROR(make_matrix(rows, margin, matrix));
    std::vector<float> scores;
    RETURN_IF_ERROR(predict(booster.handle, matrix.handle, scores));
    return scores;
  }

  absl::StatusOr<std::vector<float>> base_margin(
      const std::vector<const std::vector<float>*>& rows) const {
    std::vector<float> margin;
    for (const std::vector<float>* row : rows) {
      if (row->size() != feature_table().size())
        return absl::InvalidArgumentError("features of another schema");
      margin.push_back(draft_margin(*row));
    }
    for (const std::unique_ptr<Booster>& booster : base_) {
      ASSIGN_OR_RETURN(margin, with(*booster, rows, margin));
    }
    return margin;
  }

  std::vector<std::unique_ptr<Booster>> base_;
  std::unique_ptr<Booster> residual_;
};

std::string schema_text() {
  std::ostringstream out;
  out << std::hex << feature_schema();
  return out.str();
}

}  // namespace

std::unique_ptr<Model> make_draft_model() { return std::make_unique<DraftModel>(); }
std::unique_ptr<Model> make_xgboost_model() { return std::make_unique<XgboostModel>(); }

absl::Status save_model(const Model& model, const std::string& path) {
  const auto* trees = dynamic_cast<const XgboostModel*>(&model);
  if (trees == nullptr) return absl::InvalidArgumentError("the draft model has nothing to save");
  std::ofstream out(path, std::ios::binary);
  out << kMagic << "\n" << schema_text() << "\n";
  RETURN_IF_ERROR(trees->save(out));
  out.close();
  if (!out) return absl::UnavailableError(concat("cannot write ", path));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Model>> load_model(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return absl::NotFoundError(concat("cannot read ", path));
  std::string magic, schema;
  std::getline(in, magic);
  std::getline(in, schema);
  if (magic != kMagic) return absl::InvalidArgumentError(concat(path, " is not a cost model"));
  if (schema != schema_text()) {
    return absl::FailedPreconditionError(concat(path, " was trained on other features (schema ",
                                                schema, ", this program has ", schema_text(),
                                                "): train it again"));
  }
  auto model = std::make_unique<XgboostModel>();
  const absl::Status status = model->load(in);
  if (!status.ok()) return absl::DataLossError(concat(path, ": ", std::string(status.message())));
  return std::unique_ptr<Model>(std::move(model));
}

}  // namespace lw
