#include "loopwright/loopwright.h"

#include <algorithm>
#include <cstring>

#include "loopwright/client.h"
#include "src/client/c_client.h"
#include "src/client/c_reply.h"

struct loopwright_answer {
  lw::ClientAnswer answer;
  std::string outcome, json;
};

namespace {

using lw::lacks;
using lw::report;
using lw::text_or_none;

loopwright_answer* wrap(lw::ClientAnswer found) {
  auto* answer = new loopwright_answer{std::move(found), "", ""};
  answer->outcome = lw::rung_name(answer->answer.answer.outcome);
  answer->json = lw::to_json(answer->answer.answer);
  return answer;
}

}  // namespace

int32_t loopwright_open(const loopwright_options* options, loopwright_client** client, char* error,
                        size_t error_size) {
  if (client == nullptr) return lacks("client", error, error_size);
  *client = nullptr;
  // A caller built with an older header knows fewer options.
  loopwright_options known{};
  if (options != nullptr) std::memcpy(&known, options, std::min(options->size, sizeof known));
  lw::ClientOptions wanted;
  wanted.snapshot = text_or_none(known.snapshot);
  wanted.cache_folder = text_or_none(known.cache_folder);
  wanted.server = text_or_none(known.server);
  wanted.tls_ca = text_or_none(known.tls_ca);
  wanted.tls_certificate = text_or_none(known.tls_cert);
  wanted.tls_key = text_or_none(known.tls_key);
  wanted.insecure = known.insecure != 0;
  if (known.deadline_ms > 0) wanted.deadline_ms = known.deadline_ms;
  wanted.frozen = known.frozen != 0;
  if (known.no_default != 0) wanted.on_miss = lw::OnMiss::kNothing;
  absl::StatusOr<std::unique_ptr<lw::ScheduleClient>> opened =
      lw::ScheduleClient::open(std::move(wanted));
  if (!opened.ok()) {
    report(opened.status(), error, error_size);
    return LOOPWRIGHT_ENVIRONMENT;  // the snapshot or the certificates
  }
  *client = new loopwright_client{*std::move(opened)};
  return LOOPWRIGHT_OK;
}

void loopwright_close(loopwright_client* client) { delete client; }

int32_t loopwright_lookup(loopwright_client* client, const char* workload, const char* target,
                          int32_t threads, loopwright_answer** answer, char* error,
                          size_t error_size) {
  if (answer == nullptr) return lacks("answer", error, error_size);
  return loopwright_lookup_batch(client, &workload, 1, target, threads, answer, error, error_size);
}

namespace {

// Answer i is of asked[i]; the first error.
int32_t look_up_all(loopwright_client* client, const std::vector<loopwright_task>& asked,
                    loopwright_answer** answers, char* error, size_t error_size) {
  std::vector<lw::Task> tasks;
  std::vector<size_t> places;
  absl::Status first;
  for (size_t i = 0; i < asked.size(); ++i) {
    answers[i] = nullptr;
    absl::StatusOr<lw::Task> task = lw::task_asked(&asked[i]);
    if (!task.ok()) {
      first.Update(task.status());
      continue;
    }
    tasks.push_back(*std::move(task));
    places.push_back(i);
  }
  std::vector<absl::StatusOr<lw::ClientAnswer>> found = client->client->lookup(tasks);
  for (size_t n = 0; n < found.size(); ++n) {
    if (found[n].ok())
      answers[places[n]] = wrap(*std::move(found[n]));
    else
      first.Update(found[n].status());
  }
  return report(first, error, error_size);
}

}  // namespace

int32_t loopwright_lookup_task(loopwright_client* client, const loopwright_task* task,
                               loopwright_answer** answer, char* error, size_t error_size) {
  if (answer == nullptr) return lacks("answer", error, error_size);
  *answer = nullptr;
  if (client == nullptr) return lacks("client", error, error_size);
  if (task == nullptr) return lacks("task", error, error_size);
  loopwright_task known{};
  std::memcpy(&known, task, std::min(task->size, sizeof known));
  known.size = sizeof known;
  return look_up_all(client, {known}, answer, error, error_size);
}

int32_t loopwright_lookup_batch(loopwright_client* client, const char* const* workloads,
                                size_t count, const char* target, int32_t threads,
                                loopwright_answer** answers, char* error, size_t error_size) {
  if (client == nullptr) return lacks("client", error, error_size);
  if (count > 0 && (workloads == nullptr || answers == nullptr)) {
    return lacks("workloads or answers", error, error_size);
  }
  std::vector<loopwright_task> asked(count);
  for (size_t i = 0; i < count; ++i) {
    if (workloads[i] == nullptr) return lacks("a workload", error, error_size);
    asked[i] = {sizeof(loopwright_task), workloads[i], target, threads, nullptr, nullptr};
  }
  return look_up_all(client, asked, answers, error, error_size);
}

void loopwright_answer_free(loopwright_answer* answer) { delete answer; }

const char* loopwright_answer_outcome(const loopwright_answer* answer) {
  return answer->outcome.c_str();
}
const char* loopwright_answer_trace(const loopwright_answer* answer) {
  return answer->answer.answer.trace.c_str();
}
const char* loopwright_answer_origin(const loopwright_answer* answer) {
  return answer->answer.origin.c_str();
}
double loopwright_answer_time_us(const loopwright_answer* answer) {
  return answer->answer.answer.time_us();
}
const char* loopwright_answer_time_kind(const loopwright_answer* answer) {
  return answer->answer.answer.time_kind().data();
}
double loopwright_answer_distance(const loopwright_answer* answer) {
  return answer->answer.answer.distance;
}
double loopwright_answer_predicted_loss(const loopwright_answer* answer) {
  return answer->answer.answer.predicted_loss.value_or(-1);
}
int32_t loopwright_answer_stale(const loopwright_answer* answer) {
  return answer->answer.answer.stale ? 1 : 0;
}
const char* loopwright_answer_json(const loopwright_answer* answer) { return answer->json.c_str(); }
