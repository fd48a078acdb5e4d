// `model`: the cost model by itself. Its quality is measured on workloads that it has not seen.
#include "absl/strings/str_format.h"
#include "cost_model/trees/learned.h"
#include "src/cli/commands.h"
#include "src/cli/model/examples.h"
#include "src/cli/model/gather.h"
#include "src/cli/subcommands.h"
#include "src/learn/dataset.h"
#include "src/learn/hold_out.h"

namespace lw {
namespace {

struct ModelOptions {
  DatabaseFlags database;
  Output output;
  std::string file = "loopwright.model", architecture = "x86_64", data, held = "class";
  int folds = 5;
  uint64_t seed = 1;
  GatherOptions gather;
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
          {"best_of_tenth", m.best_of_tenth},
          {"random_peak_at_1", m.random_peak_at_1},
          {"random_peak_at_5", m.random_peak_at_5},
          {"groups", m.groups},
          {"examples", m.examples}};
}

Table metrics_table() {
  return {{"held out", "tasks", "model", "pairwise", "peak@1", "peak@5", "best of 10 %"},
          {},
          {false, true, false, true, true, true, true}};
}

void add_metrics(Table& table, const std::string& held, const char* name, const RankingMetrics& m) {
  table.rows.push_back({held, concat(m.groups), name});
  for (double value : {m.pairwise, m.peak_at_1, m.peak_at_5, m.best_of_tenth})
    table.rows.back().push_back(absl::StrFormat("%.3f", value));
}

void add_random(Table& table, const std::string& held, const RankingMetrics& m) {
  table.rows.push_back({held, concat(m.groups), "random", "0.500",
                        absl::StrFormat("%.3f", m.random_peak_at_1),
                        absl::StrFormat("%.3f", m.random_peak_at_5), ""});
}

std::vector<float> scores_by(const Model& model, const std::vector<Example>& examples) {
  std::vector<std::vector<float>> asked;
  for (const Example& example : examples) asked.push_back(example.features);
  return model.score(asked);
}

// A data set's, with a line about what it has lost.
absl::StatusOr<LabelledExamples> labelled(const ModelOptions& options) {
  ASSIGN_OR_RETURN(const Dataset dataset, environment(load_dataset(options.data)));
  LabelledExamples examples = examples_of(
      dataset, options.held == "target" ? LabelledBy::kTarget : LabelledBy::kClass);
  if (examples.skipped > 0)
    options.output.note(concat(examples.skipped, " programs are no longer to be had: left out"));
  if (examples.examples.empty())
    return absl::NotFoundError(concat(options.data, " has nothing to learn from"));
  return examples;
}

absl::StatusOr<int> train(const ModelOptions& options) {
  std::vector<Example> examples;
  std::unique_ptr<Model> model;
  if (options.data.empty()) {
    ASSIGN_OR_RETURN(Examples loaded, examples_of(options));
    examples = std::move(loaded.examples);
    model = make_xgboost_model();
  } else {
    ASSIGN_OR_RETURN(LabelledExamples loaded, labelled(options));
    examples = std::move(loaded.examples);
    model = make_xgboost_model(offline_training());
  }
  RETURN_IF_ERROR(model->fit(examples, options.seed));
  RETURN_IF_ERROR(environment(save_model(*model, options.file, options.architecture)));
  const RankingMetrics fit = evaluate(scores_by(*model, examples), examples);
  Json json = {{"file", options.file}, {"features", examples.front().features.size()}};
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

// Classes of operators, or targets, are held out in turns.
absl::StatusOr<int> eval_dataset(const ModelOptions& options) {
  ASSIGN_OR_RETURN(const LabelledExamples examples, labelled(options));
  ASSIGN_OR_RETURN(const std::vector<float> scores,
                   held_out_scores(examples, offline_training(), options.seed));
  const std::vector<float> draft = scores_by(*make_draft_model(), examples.examples);
  Table table = metrics_table();
  Json classes = Json::object();
  for (int kind = 0; kind < static_cast<int>(examples.kinds.size()); ++kind) {
    const RankingMetrics m = evaluate_uniform(examples, scores, kind),
                         d = evaluate_uniform(examples, draft, kind);
    add_metrics(table, examples.kinds[kind], "xgboost", m);
    add_metrics(table, examples.kinds[kind], "draft", d);
    classes[examples.kinds[kind]] = {{"model", metrics_json(m)}, {"draft", metrics_json(d)}};
  }
  const RankingMetrics m = evaluate_uniform(examples, scores),
                       d = evaluate_uniform(examples, draft);
  add_metrics(table, "all", "xgboost", m);
  add_metrics(table, "all", "draft", d);
  add_random(table, "all", m);
  Json json = metrics_json(m);
  json["held_out_by"] = options.held;
  json["draft"] = metrics_json(d);
  json["classes"] = std::move(classes);
  emit(options.output, json, table);
  return kDone;
}

absl::StatusOr<int> eval(const ModelOptions& options) {
  if (!options.data.empty()) return eval_dataset(options);
  ASSIGN_OR_RETURN(const Examples loaded, examples_of(options));
  const std::vector<Example>& examples = loaded.examples;
  const RankingMetrics draft = evaluate(scores_by(*make_draft_model(), examples), examples);
  if (draft.groups < 2) {
    return absl::NotFoundError("evaluating on unseen workloads takes at least two in the database");
  }
  ASSIGN_OR_RETURN(const std::vector<float> scores,
                   held_out_scores(examples, options.folds, options.seed));
  const RankingMetrics model = evaluate(scores, examples);
  Json json = metrics_json(model);
  json["held_out_by"] = "workload";
  json["draft"] = metrics_json(draft);
  Table table = metrics_table();
  add_metrics(table, "workloads", "xgboost", model);
  add_metrics(table, "workloads", "draft", draft);
  add_random(table, "workloads", model);
  emit(options.output, json, table);
  return kDone;
}

absl::StatusOr<int> run_gather(const ModelOptions& options) {
  return gather(options.gather, options.output);
}

Action declare_model(CliArguments app) {
  Subcommands<ModelOptions> commands(app, nullptr);
  ModelOptions* options = commands.options.get();
  const auto add = [&](const char* name, const char* help, auto run) {
    CliArguments sub = commands.add(app, name, help, run);
    add_database(sub, &options->database);
    add_output(sub, &options->output);
    sub.add_option("--data", options->data, "a data set of `model gather`, not a database");
    sub.add_option("--seed", options->seed, "of the training").capture_default_str();
    return sub;
  };
  CliArguments training = add("train", "learn from a data set or everything in the database", train);
  training.add_option("-o,--output", options->file, "file to save to").capture_default_str();
  training.add_option("--family", options->architecture, "of the targets that were measured")
      .capture_default_str();
  CliArguments held = add("eval", "how well it ranks what it has not seen: classes of operators of "
                          "a data set, or the workloads of a database", eval);
  held.add_option("--folds", options->folds, "parts that the workloads are dealt into")
      .between(2, 100).capture_default_str();
  held.add_option("--held-out", options->held, "of a data set")
      .one_of({"class", "target"}).capture_default_str();
  CliArguments sub = commands.add(app, "gather", "measure random tasks to learn from", run_gather);
  add_output(sub, &options->output);
  add_gather(sub, &options->gather);
  return commands.action();
}

}  // namespace

const CommandGroup& model_commands() {
  static const CommandGroup group = {
      100, {{"model", "the cost model: train, eval", declare_model}}};
  return group;
}

}  // namespace lw
