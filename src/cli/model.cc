// `model`: the cost model by itself. Its quality is measured on workloads that it has not seen.
#include "absl/strings/str_format.h"
#include "src/cli/commands.h"
#include "src/cli/examples.h"
#include "src/cli/subcommands.h"

namespace lw {
namespace {

struct ModelOptions {
  DatabaseFlags database;
  Output output;
  std::string file = "loopwright.model";
  int folds = 5;
  uint64_t seed = 1;
};

absl::StatusOr<Examples> examples_of(const ModelOptions& options) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Store> store, options.database.open_to_read());
  if (store == nullptr)
    return absl::NotFoundError(concat("there is no database ", options.database.shown()));
  ASSIGN_OR_RETURN(Examples examples, environment(load_examples(*store)));
  if (examples.skipped > 0) {
    options.output.note(
        concat(examples.skipped, " measurements cannot be replayed and are left out"));
  }
  if (examples.examples.empty()) {
    return absl::NotFoundError(concat(options.database.shown(), " has nothing to learn from"));
  }
  return examples;
}

Json metrics_json(const RankingMetrics& m) {
  return {{"pairwise", m.pairwise},
          {"peak_at_1", m.peak_at_1},
          {"peak_at_5", m.peak_at_5},
          {"recall_at_30", m.recall_at_30},
          {"random_peak_at_1", m.random_peak_at_1},
          {"random_peak_at_5", m.random_peak_at_5},
          {"groups", m.groups},
          {"examples", m.examples}};
}

std::vector<std::string> metrics_row(const char* name, const RankingMetrics& m) {
  std::vector<std::string> row = {name};
  for (double value : {m.pairwise, m.peak_at_1, m.peak_at_5, m.recall_at_30}) {
    row.push_back(absl::StrFormat("%.3f", value));
  }
  return row;
}

absl::StatusOr<int> train(const ModelOptions& options) {
  ASSIGN_OR_RETURN(const Examples examples, examples_of(options));
  const std::unique_ptr<Model> model = make_xgboost_model();
  RETURN_IF_ERROR(model->fit(examples.examples, options.seed));
  RETURN_IF_ERROR(environment(save_model(*model, options.file)));
  std::vector<std::vector<float>> asked;
  for (const Example& example : examples.examples) asked.push_back(example.features);
  const RankingMetrics fit = evaluate(model->score(asked), examples.examples);
  Json json = {{"file", options.file}, {"features", feature_table().size()}};
  json.update(metrics_json(fit));
  emit(options.output, json,
       {{"file", "examples", "groups"},
        {{options.file, concat(fit.examples), concat(fit.groups)}},
        {}},
       absl::StrFormat(
           "%s: learned from %d examples of %d tasks (%.1f %% of their pairs in order)\n",
           options.file, fit.examples, fit.groups, 100 * fit.pairwise));
  return kDone;
}

absl::StatusOr<int> eval(const ModelOptions& options) {
  ASSIGN_OR_RETURN(const Examples loaded, examples_of(options));
  const std::vector<Example>& examples = loaded.examples;
  std::vector<std::vector<float>> asked;
  for (const Example& example : examples) asked.push_back(example.features);
  const RankingMetrics draft = evaluate(make_draft_model()->score(asked), examples);
  if (draft.groups < 2) {
    return absl::NotFoundError("evaluating on unseen workloads takes at least two in the database");
  }
  ASSIGN_OR_RETURN(const std::vector<float> scores,
                   held_out_scores(examples, options.folds, options.seed));
  const RankingMetrics model = evaluate(scores, examples);
  Json json = metrics_json(model);
  json["held_out_by"] = "workload";
  json["draft"] = metrics_json(draft);
  Table table{
      {"model", "pairwise", "peak@1", "peak@5", "recall@30"}, {}, {false, true, true, true, true}};
  table.rows.push_back(metrics_row("xgboost, held out", model));
  table.rows.push_back(metrics_row("draft", draft));
  table.rows.push_back({"random", "0.500", absl::StrFormat("%.3f", model.random_peak_at_1),
                        absl::StrFormat("%.3f", model.random_peak_at_5), ""});
  emit(options.output, json, table);
  return kDone;
}

}  // namespace

Action model_command(CLI::App& app) {
  Subcommands<ModelOptions> commands(app, nullptr);
  ModelOptions* options = commands.options.get();
  const auto add = [&](const char* name, const char* help, auto run) {
    CLI::App* sub = commands.add(app, name, help, run);
    add_database(*sub, &options->database);
    add_output(*sub, &options->output);
    sub->add_option("--seed", options->seed, "of the training")->capture_default_str();
    return sub;
  };
  add("train", "learn from everything in the database", train)
      ->add_option("-o,--output", options->file, "file to save to")->capture_default_str();
  add("eval", "how well it ranks workloads that it has not seen", eval)
      ->add_option("--folds", options->folds, "parts that the workloads are dealt into")
      ->check(CLI::Range(2, 100))->capture_default_str();
  return commands.action();
}

}  // namespace lw
