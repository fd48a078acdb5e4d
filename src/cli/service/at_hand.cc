#include "src/cli/service/at_hand.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "src/base/message.h"

namespace lw {

void add_at_hand(CliArguments app, AtHand* options) {
  app.add_option("--snapshot", options->snapshot,
                 "read this snapshot too; a server that is away is then no error");
  app.add_option("--cache-folder", options->cache_folder,
                 "keep the server's answers there, and take fresh ones from there");
  app.add_option("--deadline-ms", options->deadline_ms,
                 "that the server is waited for; then what is at hand answers (default: 50)")
      .between(1, 600'000);
}

absl::StatusOr<FoundAtHand> look_up_at_hand(const AtHand& at_hand, const RemoteService& service,
                                            const std::vector<Asked>& asked, Rung worst) {
  ClientOptions options;
  options.snapshot = at_hand.snapshot;
  options.cache_folder = at_hand.cache_folder;
  options.server = service.server.address;
  options.tls_ca = service.server.tls.ca;
  options.tls_certificate = service.server.tls.certificate;
  options.tls_key = service.server.tls.key;
  options.insecure = service.server.insecure;
  if (at_hand.deadline_ms > 0) options.deadline_ms = at_hand.deadline_ms;
  options.on_miss = worst == Rung::kDefault ? OnMiss::kZeroTrial : OnMiss::kNothing;
  options.ladder.lowest = std::min(worst, options.ladder.lowest);
  const int deadline_ms = options.deadline_ms;
  ASSIGN_OR_RETURN(const std::unique_ptr<ScheduleClient> client,
                   environment(ScheduleClient::open(std::move(options))));
  std::vector<Task> tasks;
  for (const Asked& one : asked) tasks.push_back(one.task);
  FoundAtHand found;
  for (absl::StatusOr<ClientAnswer>& answer : client->lookup(tasks)) {
    RETURN_IF_ERROR(answer.status());
    found.answers.push_back(*std::move(answer));
  }
  std::vector<std::string> places;
  for (const std::string* place :
       {&service.server.address, &at_hand.snapshot, &at_hand.cache_folder}) {
    if (!place->empty()) places.push_back(*place);
  }
  found.places = absl::StrJoin(places, ", ");
  if (client->stats().remote.failures > 0) {
    found.away = concat("no answer from ", service.server.address, " within ", deadline_ms,
                        " ms: it is away, refuses, or needs a longer --deadline-ms");
  }
  return found;
}

}  // namespace lw
