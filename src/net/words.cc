#include "src/net/words.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "loopwright/v1/agent.pb.h"
#include "schedules/steps.h"
#include "src/base/message.h"
#include "tuner_db/verdict.h"

namespace lw {
namespace {

constexpr std::string_view kStep = "step ", kJob = "job ", kVerdict = "verdict ";

// Programs that say no words: never changed again.
const std::vector<std::string>& words_of_before() {
  static const std::vector<std::string>& words = *new std::vector<std::string>{
      "job compare", "job measure", "step compute_at@1", "step dot@1", "step fuse@1",
      "step inline_producer@1", "step non_temporal@1", "step parallel@1", "step phase@1",
      "step prefetch@1", "step register_tile@1", "step reorder@1", "step reverse_inline@1",
      "step rfactor@1", "step slide@1", "step split@1", "step stage@1", "step unroll@1",
      "step vectorize@1", "step winograd@1", "verdict build_error", "verdict crash",
      "verdict device_limit", "verdict device_unhealthy", "verdict ok", "verdict throttled",
      "verdict timeout", "verdict worker_lost", "verdict wrong_result"};
  return words;
}

std::vector<std::string> make_words() {
  std::vector<std::string> words;
  for (const StepKind* kind : lw_step_table()) {
    words.push_back(concat(kStep, kind->name, "@", kind->version));
  }
  const google::protobuf::EnumDescriptor* jobs = loopwright::v1::JobKind_descriptor();
  constexpr std::string_view kPrefix = "JOB_KIND_";
  for (int i = 1; i < jobs->value_count(); ++i) {
    words.push_back(concat(kJob, absl::AsciiStrToLower(jobs->value(i)->name().substr(
                                     kPrefix.size()))));
  }
  for (const VerdictRow& row : kVerdicts) words.push_back(concat(kVerdict, row.name));
  std::sort(words.begin(), words.end());
  return words;
}

// Of these kinds, those of `wanted` that `known` lacks. REQUIRES: `known` is sorted.
std::vector<std::string> lacking(const std::vector<std::string>& wanted,
                                 const std::vector<std::string>& known,
                                 std::initializer_list<std::string_view> kinds) {
  std::vector<std::string> missing;
  for (const std::string& word : wanted) {
    const bool counts = std::any_of(kinds.begin(), kinds.end(), [&](std::string_view kind) {
      return std::string_view(word).starts_with(kind);
    });
    if (counts && !std::binary_search(known.begin(), known.end(), word)) missing.push_back(word);
  }
  return missing;
}

// The first few: the program is named by its version anyhow.
std::string list(std::vector<std::string> words) {
  constexpr size_t kMost = 5;
  const size_t more = words.size() > kMost ? words.size() - kMost : 0;
  words.resize(words.size() - more);
  return concat(absl::StrJoin(words, ", "), more > 0 ? concat(" and ", more, " more") : "");
}

}  // namespace

const std::vector<std::string>& known_words() {
  static const std::vector<std::string>& words = *new std::vector<std::string>(make_words());
  return words;
}

std::string misfit(std::vector<std::string> agents, const std::vector<std::string>& servers) {
  if (agents == servers) return "";
  if (agents.empty()) agents = words_of_before();
  std::sort(agents.begin(), agents.end());
  const std::vector<std::string> unread = lacking(servers, agents, {kStep, kJob});
  if (!unread.empty()) {
    return concat("its agent's version does not know ", list(unread), ": update the agent");
  }
  const std::vector<std::string> unheard = lacking(agents, servers, {kVerdict});
  if (!unheard.empty()) {
    return concat("this server's version does not know ", list(unheard), ": update the server");
  }
  return "";
}

}  // namespace lw
