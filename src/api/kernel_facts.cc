#include "src/api/kernel_facts.h"

#include <algorithm>
#include <filesystem>

#include "loopwright/context.h"
#include "schedules/targets/family.h"
#include "src/api/task.h"
#include "src/api/words.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/build/build.h"
#include "src/expr/expr.h"
#include "src/expr/language/syntax.h"
#include "src/expr/language/text.h"
#include "src/expr/work/work.h"
#include "src/kernel/kernel.h"
#include "tuner_db/ladder/withdrawn_list.h"
#include "tuner_db/record.h"

namespace lw {
namespace {

constexpr size_t kLongestEntry = 200;

using Json = nlohmann::ordered_json;

KernelFacts::Argument argument_facts(const Tensor& tensor, bool read_by_run) {
  KernelFacts::Argument facts;
  facts.name = tensor.name;
  facts.type = type_name(tensor.type);
  facts.shape = tensor.shape;
  facts.flags = (tensor.role == Role::kInput ? 0 : LW_OUTPUT) | (tensor.is_const ? LW_CONST : 0) |
                (read_by_run && tensor.role == Role::kInput ? LW_READ_BY_RUN : 0);
  facts.bytes = bytes(tensor);
  facts.alignment = size_of(tensor.type);
  return facts;
}

std::vector<KernelFacts::Argument> all_arguments(const Program& program, const Kernel& kernel) {
  std::vector<KernelFacts::Argument> all;
  for (int t : arguments(program)) {
    all.push_back(argument_facts(program.tensors[t],
                                 uses_argument(kernel, static_cast<int>(all.size()))));
  }
  return all;
}

absl::StatusOr<Kernel> named_kernel(const Task& task, const Choice& choice,
                                    const std::string& entry) {
  RETURN_IF_ERROR(check_found(task, choice));
  if (!entry.empty() && (!is_identifier(entry) || entry.size() > kLongestEntry)) {
    return absl::InvalidArgumentError(concat("a kernel's entry must be an identifier of C of at most ",
                                             kLongestEntry, " characters, not '",
                                             entry.substr(0, kLongestEntry), "'"));
  }
  Kernel kernel = *choice.kernel;
  if (!entry.empty()) kernel.name = entry;
  return kernel;
}

Json facts_json(const Task& task, const Choice& choice, const Kernel& kernel,
                const KernelFacts& facts) {
  Json json;
  json["abi"] = LOOPWRIGHT_ABI;
  json["entry"] = kernel.name;
  json["family"] = task.target()->architecture;
  json["workload"] = words_without_folder(task.workload().source_words);
  json["canonical_sha256"] = task.workload().id;
  json["program"] = print(*task.program());
  json["target"] = task.target()->name;
  json["target_sha256"] = task.key().target;
  for (const auto& [name, word] : known_as(*task.target())) json[name] = word;
  json["features"] = task.target()->features;
  json["backend"] = task.key().backend;
  json["threads"] = task.threads();
  json["objective"] = task.key().objective;
  json["arguments"] = Json::array();
  for (const KernelFacts::Argument& one : facts.arguments) {
    const bool is_output = (one.flags & LW_OUTPUT) != 0;
    json["arguments"].push_back({{"name", one.name},
                                 {"role", is_output ? "out" : "in"},
                                 {"type", one.type},
                                 {"shape", one.shape},
                                 {"const", (one.flags & LW_CONST) != 0},
                                 {"bytes", one.bytes},
                                 {"alignment", one.alignment}});
    if (!is_output) json["arguments"].back()["read_by_run"] = (one.flags & LW_READ_BY_RUN) != 0;
  }
  json["flops"] = count_flops(*task.program()).useful;
  json["workspace_bytes"] = kernel.workspace_bytes;
  json["private_bytes"] = kernel.private_bytes;
  json["packed_bytes"] = kernel.packed_bytes;
  json["outcome"] = choice.outcome;
  json["trace"] = choice.trace;
  json["record"] = record_digest(task.key(), choice.trace);
  json["digest"] = facts.digest;
  return json;
}

}  // namespace

std::string words_without_folder(const std::string& words) {
  return with_path(words, [](const std::filesystem::path& path) { return path.filename(); });
}

absl::StatusOr<DescribedKernel> build_described(const Task& task, const Choice& choice,
                                                const std::string& entry) {
  ASSIGN_OR_RETURN(const Kernel kernel, named_kernel(task, choice, entry));
  KernelFacts facts;
  facts.arguments = all_arguments(*task.program(), kernel);
  facts.threads = task.threads();
  facts.digest = kernel_digest(task.key(), hash(kernel));
  DescribedKernel described;
  described.facts = facts_json(task, choice, kernel, facts);
  facts.json = described.facts.dump(-1, ' ', false, Json::error_handler_t::replace);
  ASSIGN_OR_RETURN(described.artifact, task.backend().described(kernel, *task.target(), facts));
  return described;
}

}  // namespace lw
