#include "src/build/simt/ptx/ptx_program.h"

#include <algorithm>
#include <cctype>

#include "schedules/targets/simt/simt_target.h"
#include "schedules/targets/target.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/build/simt/ptx/ptx_entry.h"
#include "src/build/simt/launches.h"
#include "src/build/simt/limits.h"

namespace lw {
namespace {

// The least that has the processor's instructions: drivers of the release's time take the text.
std::string version_for(const std::string& sm) {
  return sm == "sm_90" || sm == "sm_90a" ? "8.0" : "7.5";
}

// A word of PTX: letters, digits and lines, no digit first.
std::string ptx_name(std::string_view name) {
  std::string word = "lw_";
  for (const char c : name) {
    word += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  }
  return word;
}

}  // namespace

std::string sm_of(const Target& target) {
  std::string newest;                      // they are sorted
  for (const std::string& feature : target.features) {
    if (feature.starts_with("sm_")) newest = feature;
  }
  return newest;
}

absl::StatusOr<SimtProgram> ptx_program(const Kernel& kernel, const Target& target) {
  RETURN_IF_ERROR(check_simt_limits(kernel, simt(target)));
  SimtProgram program = program_of(kernel);
  program.options = sm_of(target);
  if (program.options.empty()) {
    return absl::InvalidArgumentError(concat("target ", target.name, ": no feature says which ",
                                             "processor it is: \"sm_80\", \"sm_90a\""));
  }
  const std::string name = ptx_name(kernel.name);
  std::string entries;
  const auto print = [&](const LaunchedList& launched,
                         SimtProgram::Launch* launch) -> absl::Status {
    ASSIGN_OR_RETURN(const std::string entry,
                     ptx_entry(kernel, target, concat(name, launched.ending), launched.before,
                               launched.statements, launch));
    entries += entry;
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(each_launch(kernel.prepack, "_prepack_", print, &program.prepack));
  RETURN_IF_ERROR(each_launch(kernel.body, "_", print, &program.launches));
  program.source = concat("// ", name, ": made by Loopwright.\n.version ",
                          version_for(program.options), "\n.target ", program.options,
                          "\n.address_size 64\n");
  if (program.local_bytes > 0) {
    program.source += concat("\n.extern .shared .align 1024 .b8 ", kPtxShared, "[];\n");
  }
  program.source += entries;
  return program;
}

}  // namespace lw
