// What is made of exported kernels: a function that chooses among them, and a check of each.
#include "src/api/dispatch.h"

#include <filesystem>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "src/api/run/exported.h"
#include "src/base/files.h"
#include "src/cli/commands.h"
#include "src/figures/format.h"

namespace lw {
namespace {

struct DispatchOptions {
  Output output;
  std::string name, folder;
  std::vector<std::string> instances;
  bool hook = false;
};

// "M=8,N=64:FILE.json", or a file alone.
absl::StatusOr<DispatchInstance> read_instance(const std::string& text) {
  DispatchInstance instance;
  const size_t colon = text.find(':');
  const std::string parameters = colon == std::string::npos ? "" : text.substr(0, colon);
  for (const std::string& one :
       std::vector<std::string>(absl::StrSplit(parameters, ',', absl::SkipEmpty()))) {
    const size_t equals = one.find('=');
    int64_t value = 0;
    if (equals == std::string::npos || !absl::SimpleAtoi(one.substr(equals + 1), &value)) {
      return absl::InvalidArgumentError(
          concat("'", text, "' is no instance: M=8,N=64:FILE.json, with integers"));
    }
    instance.parameters.emplace_back(one.substr(0, equals), value);
  }
  ASSIGN_OR_RETURN(instance.json,
                   read_text(colon == std::string::npos ? text : text.substr(colon + 1)));
  return instance;
}

// Kernels that nobody tuned, as a table on stderr: what a build shall not be silent about.
void say_untuned(const DispatchOptions& options, const std::vector<DispatchInstance>& instances) {
  Table table{{"kernel", "target", "outcome", "expected loss"}, {}, {}};
  for (const DispatchInstance& instance : instances) {
    const Json json = Json::parse(instance.json);
    if (json["outcome"] == "exact") continue;
    const bool known = json.contains("predicted_loss") && json["predicted_loss"].is_number();
    table.rows.push_back({json["entry"], json["target"], json["outcome"],
                          known ? percent(json["predicted_loss"].get<double>()) : "unknown"});
  }
  if (table.rows.empty()) return;
  options.output.note(concat("not tuned, and never run: `loopwright_add_test` or `loopwright verify` "
                             "run them\n", as_text(table)));
}

absl::StatusOr<int> run_dispatch(const DispatchOptions& options) {
  std::vector<DispatchInstance> instances;
  for (const std::string& text : options.instances) {
    ASSIGN_OR_RETURN(DispatchInstance instance, read_instance(text));
    instances.push_back(std::move(instance));
  }
  ASSIGN_OR_RETURN(const DispatchSource made,
                   dispatch_source(options.name, instances, options.hook));
  std::error_code error;
  std::filesystem::create_directories(options.folder, error);
  const std::string stem = (std::filesystem::path(options.folder) / options.name).string();
  RETURN_IF_ERROR(environment(write_file(stem + ".h", made.header)));
  RETURN_IF_ERROR(environment(write_file(stem + ".c", made.source)));
  say_untuned(options, instances);
  const std::vector<std::string> files = {stem + ".h", stem + ".c"};
  emit(options.output, {{"files", files}}, {{"file"}, {{files[0]}, {files[1]}}, {}},
       absl::StrJoin(files, "\n") + "\n");
  return kDone;
}

Action declare_dispatch(CliArguments app) {
  auto options = std::make_shared<DispatchOptions>();
  app.add_option("name", options->name, "of the function").required();
  app.add_option("--instance", options->instances,
                 "PARAMETERS:FILE.json of an exported kernel, M=8,N=64:out/dense_8.json; of equal "
                 "parameters the first that the processor can run is called")
      .required()
      .allow_extra_args(false);
  app.add_flag("--hook", options->hook,
               "the function takes an lw_context too, whose parallel_for runs parallel loops");
  app.add_option("-o,--output", options->folder, "folder to write NAME.c and NAME.h to").required();
  add_output(app, &options->output);
  return [options] { return run_dispatch(*options); };
}

struct VerifyOptions {
  Output output;
  std::vector<std::string> files;
};

absl::StatusOr<int> run_verify(const VerifyOptions& options) {
  Table table{{"kernel"}, {}, {}};
  Json verified = Json::array();
  for (const std::string& file : options.files) {
    const absl::Status status = verify_exported(file);
    if (absl::IsNotFound(status) || absl::IsAborted(status)) return status;
    RETURN_IF_ERROR(environment(status));
    verified.push_back(file);
    table.rows.push_back({file});
  }
  emit(options.output, {{"verified", verified}}, table);
  return kDone;
}

Action declare_verify(CliArguments app) {
  auto options = std::make_shared<VerifyOptions>();
  app.add_option("files", options->files, "NAME.json of exported kernels").required();
  add_output(app, &options->output);
  return [options] { return run_verify(*options); };
}

}  // namespace

const CommandGroup& dispatch_commands() {
  static const CommandGroup group = {75, {
      {"dispatch", "write a C function that chooses among exported kernels", declare_dispatch},
      {"verify", "run exported kernels against the reference; exit 2: nothing here can, 3: wrong",
       declare_verify},
  }};
  return group;
}

}  // namespace lw
