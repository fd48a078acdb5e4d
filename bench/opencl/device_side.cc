#include "bench/opencl/device_side.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/check.h"
#include "src/base/hash.h"
#include "src/base/message.h"

namespace lw {
namespace {

std::string file_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(file)), {});
}

// NAME.json says how NAME.cl is launched (docs/opencl.md).
absl::StatusOr<SimtProgram> read_device_export(const std::filesystem::path& folder) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    nlohmann::json json = nlohmann::json::parse(file_text(entry.path()), nullptr, false);
    if (!json.is_object() || !json.contains("opencl")) break;
    nlohmann::json launch = json["opencl"];
    launch["source"] = file_text(folder / launch.value("source_file", ""));
    launch.erase("source_file");
    return parse_simt_program(launch.dump());
  }
  return absl::NotFoundError(concat("no kernel of OpenCL in ", folder.string()));
}

}  // namespace

absl::StatusOr<DeviceTuned> tune_on_device(const TunerOptions& options, const BenchCase& one) {
  const std::string database = options.folder + "/opencl.db";
  DeviceTuned tuned;
  ASSIGN_OR_RETURN(tuned.tuning, tune(options, one, 1, database));
  std::string words;
  for (const std::string& word : command_words(one)) words += word + " ";
  const std::string folder =
      absl::StrCat(options.folder, "/opencl_", absl::Hex(hash64(words + options.target)));
  RETURN_IF_ERROR(run_export(options, one, 1, database, true, folder).status());
  ASSIGN_OR_RETURN(tuned.program, read_device_export(folder));
  return tuned;
}

absl::StatusOr<std::unique_ptr<OpenClCall>> load_call(OpenClSession* session, SimtProgram program,
                                                      void* const* arguments) {
  ASSIGN_OR_RETURN(std::unique_ptr<OpenClCall> call, OpenClCall::load(session, std::move(program)));
  RETURN_IF_ERROR(call->write_inputs(arguments));
  RETURN_IF_ERROR(call->enqueue_prepack());
  RETURN_IF_ERROR(session->finish());
  return call;
}

}  // namespace lw
