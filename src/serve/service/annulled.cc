// Measurements that were found to be worth nothing, as a broken device's: annulled and reinstated.
#include <algorithm>

#include "src/serve/core/calls.h"
#include "src/serve/service/schedules.h"
#include "src/serve/studies/study_best.h"
#include "tuner_db/invariants.h"
#include "tuner_db/messages/messages.h"

namespace lw {

namespace v1 = loopwright::v1;

namespace {

constexpr int kAtOnce = 200;               // measurements a transaction: others wait for it
constexpr int kKeysShown = 500;

absl::StatusOr<MeasurementFilter> read_filter(const v1::MeasurementFilter& message) {
  MeasurementFilter filter;
  const bool has_range = message.first_id() > 0 && message.last_id() > 0;
  const bool is_scoped =
      message.has_key() || !message.actor().empty() || !message.device().empty() || has_range;
  if (!is_scoped) {
    return bad_field("filter", "means everybody's measurements: give a key, an actor, a device, or "
                               "first_id and last_id");
  }
  if (message.has_key()) {
    filter.key = from_proto(message.key());
    if (std::string what = defect(*filter.key); !what.empty()) return bad_field("filter.key", what);
  }
  if (message.has_trace()) {
    if (!message.has_key()) return bad_field("filter.trace", "needs a key");
    filter.trace = message.trace();
  }
  if (message.first_id() < 0) return bad_field("filter.first_id", "is negative");
  if (message.last_id() < 0) return bad_field("filter.last_id", "is negative");
  filter.first = message.first_id();
  if (message.last_id() > 0) filter.last = message.last_id();
  filter.actor = message.actor();
  filter.device = message.device();
  return filter;
}

}  // namespace

// What is to be marked is looked for outside of the transactions that mark it: they read the rows
// of a part, and a part is small.
template <class Request, class Response>
absl::Status Schedules::mark_measurements(const Caller& caller, std::string_view method, bool annul,
                                          const Request& request, Response* response) {
  ASSIGN_OR_RETURN(MeasurementFilter filter, read_filter(request.filter()));
  filter.annulled = !annul;
  if (request.reason().size() > kLongestReason || request.reason().empty()) {
    return bad_field("reason", concat("must be given, in at most ", kLongestReason, " bytes"));
  }
  const std::string mark =
      annul ? annulment_text({actor(caller), request.reason(), core_.now_ms()}) : std::string();
  std::vector<Key> all;
  for (int64_t after = 0;;) {
    RETURN_IF_ERROR(caller.stop.status("the call"));
    const absl::StatusOr<std::vector<int64_t>> ids = core_.store->find(filter, after, kAtOnce);
    if (!ids.ok()) return store_error(ids.status());
    if (ids->empty()) break;
    after = ids->back();
    if (request.dry_run()) {
      response->set_measurements(response->measurements() +
                                 static_cast<int64_t>(ids->size()));
      continue;
    }
    auto changes = std::make_shared<Changes>();
    std::vector<Key> keys;
    int64_t changed_rows = 0;
    const absl::Status status = core_.commit.run([&](WriteTransaction& tx) -> absl::Status {
      *changes = Changes();
      ASSIGN_OR_RETURN(keys, store_in(tx)->annul(*ids, mark, &changed_rows));
      if (changed_rows == 0) return absl::OkStatus();  // another call was first
      for (const Key& key : keys) {
        RETURN_IF_ERROR(reconsider_studies(tx, key, changes.get()));
      }
      return audit_done(core_, tx, caller, method,
                        concat(changed_rows, " of ", subject_of(request, *response)));
    });
    RETURN_IF_ERROR(write_error(core_, status));
    core_.changed(*changes);
    response->set_measurements(response->measurements() + changed_rows);
    for (const Key& key : keys) {
      keeper_.update(key);                 // after the answer nobody is given it
      if (std::find(all.begin(), all.end(), key) != all.end() || all.size() >= kKeysShown) continue;
      all.push_back(key);
      *response->add_keys() = to_proto(key);
    }
  }
  return absl::OkStatus();
}

absl::Status Schedules::annul_measurements(const Caller& caller,
                                           const v1::AnnulMeasurementsRequest& request,
                                           v1::AnnulMeasurementsResponse* response) {
  return mark_measurements(caller, "AnnulMeasurements", true, request, response);
}

absl::Status Schedules::reinstate_measurements(const Caller& caller,
                                               const v1::ReinstateMeasurementsRequest& request,
                                               v1::ReinstateMeasurementsResponse* response) {
  return mark_measurements(caller, "ReinstateMeasurements", false, request, response);
}

}  // namespace lw
