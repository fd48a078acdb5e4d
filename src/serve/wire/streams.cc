// Each stream is a chain: one step at a time (a read of the database, a write, a wait), each
// started by the end of the one before. Only OnCancel comes from aside; it takes the call out of
// the parked ones, and whoever manages to take it out goes on with the chain, to its end.
#include "src/serve/wire/streams.h"

#include <algorithm>
#include <deque>

#include "src/base/check.h"
#include "src/base/message.h"
#include "src/net/times.h"
#include "src/serve/messages/errors.h"
#include "src/serve/messages/names.h"

namespace lw {

namespace v1 = loopwright::v1;

namespace {

constexpr int64_t kHeartbeatMs = 15'000;
constexpr int kEventsAtOnce = 100;

// A parked step of a chain that a cancelled call must not keep waiting.
class Parking {
 public:
  using Resume = std::function<void(ParkedCalls::Why)>;

  // The chain may go on, to its end and ours, as soon as it is parked: only what is held here is
  // touched after that.
  void park(ParkedCalls& parked, const std::string& study, uint64_t version, int64_t until_ms,
            Resume resume) {
    const std::shared_ptr<State> state = state_;
    const int64_t ticket = parked.park("", {study_topic(study)}, version, until_ms, resume);
    {
      std::lock_guard lock(state->mutex);
      if (ticket < state->ticket) return;  // the chain has gone on and parked again
      state->ticket = ticket;
      state->resume = resume;
      if (!state->cancelled) return;
    }
    if (parked.forget(ticket)) resume(ParkedCalls::Why::kTimeout);
  }
  void cancel(ParkedCalls& parked) {
    const std::shared_ptr<State> state = state_;
    int64_t ticket = 0;
    Resume resume;
    {
      std::lock_guard lock(state->mutex);
      state->cancelled = true;
      ticket = state->ticket;
      resume = state->resume;
    }
    if (ticket != 0 && parked.forget(ticket)) resume(ParkedCalls::Why::kTimeout);
  }
  bool is_cancelled() {
    std::lock_guard lock(state_->mutex);
    return state_->cancelled;
  }

 private:
  struct State {
    std::mutex mutex;
    int64_t ticket = 0;
    bool cancelled = false;
    Resume resume;
  };
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

class Watch : public grpc::ServerWriteReactor<v1::StudyEvent> {
 public:
  Watch(const Wire& wire, grpc::CallbackServerContext* context,
        const v1::WatchStudyRequest* request)
      : wire_(wire), admission_(admit(wire, *context, kMethod, Deadline::kNotWanted)),
        name_(request->name()), knows_waiting_(request->knows_waiting()),
        knows_contradicted_(request->knows_contradicted()),
        sequence_(request->after_sequence()) {
    wire_.core->metrics.add(Metric::kStreamsOpen);
    absl::Status status = admission_.status;
    if (status.ok() && sequence_ < 0) status = bad_field("after_sequence", "must not be negative");
    if (status.ok()) {
      absl::StatusOr<std::string> id = parse_name("studies", name_, "name");
      status = id.status();
      if (id.ok()) study_ = *std::move(id);
    }
    if (status.ok()) {
      read();
    } else {
      finish(status);
    }
  }
  void OnWriteDone(bool ok) override {
    if (!ok) return finish(absl::CancelledError("the watcher has gone"));
    if (written_.kind() == v1::StudyEvent::KIND_ENDED) return finish(absl::OkStatus());
    if (pending_.empty()) {
      read();
    } else {
      write();
    }
  }
  void OnCancel() override { parking_.cancel(wire_.core->parked); }
  void OnDone() override {
    wire_.core->metrics.add(Metric::kStreamsOpen, -1);
    delete this;
  }

 private:
  static constexpr char kMethod[] = "/loopwright.v1.TuningService/WatchStudy";

  void read() {
    wire_.reads->post([this] {
      if (parking_.is_cancelled()) return finish(absl::CancelledError("the watcher has gone"));
      const absl::Status denied = wire_.core->denied.check(admission_.caller.identity);
      if (!denied.ok()) return finish(denied);
      const uint64_t version = wire_.core->parked.version({study_topic(study_)});
      bool ended = false;
      absl::StatusOr<std::vector<v1::StudyEvent>> events =
          wire_.service->studies.events(study_, sequence_, kEventsAtOnce, &ended);
      if (!events.ok()) return finish(events.status());
      if (!events->empty()) {
        pending_.assign(events->begin(), events->end());
        return write();
      }
      if (ended) return finish(absl::OkStatus());
      if (wire_.core->is_stopping) {
        return finish(
            retry_later(v1::ERROR_REASON_STOPPING, "the server stops; watch again", 1000));
      }
      parking_.park(wire_.core->parked, study_, version, wire_.core->now_ms() + kHeartbeatMs,
                    [this](ParkedCalls::Why why) {
                      if (why == ParkedCalls::Why::kNews || parking_.is_cancelled()) return read();
                      beat();
                    });
    }, kMethod);
  }
  void write() {
    written_ = std::move(pending_.front());
    pending_.pop_front();
    sequence_ = written_.sequence();
    const v1::StudyEvent::Kind kind = written_.kind();
    const bool is_new = (kind == v1::StudyEvent::KIND_WAITING && !knows_waiting_) ||
                        (kind == v1::StudyEvent::KIND_CONTRADICTED && !knows_contradicted_);
    if (is_new) written_.set_kind(v1::StudyEvent::KIND_UNSPECIFIED);
    StartWrite(&written_);
  }
  void beat() {
    written_ = v1::StudyEvent();
    written_.set_kind(v1::StudyEvent::KIND_HEARTBEAT);
    written_.set_sequence(sequence_);
    StartWrite(&written_);
  }
  void finish(const absl::Status& status) {
    Finish(conclude(wire_, admission_, kMethod, name_, status));
  }

  const Wire& wire_;
  const Admission admission_;
  const std::string name_;
  const bool knows_waiting_, knows_contradicted_;
  std::string study_;
  int64_t sequence_;
  std::deque<v1::StudyEvent> pending_;
  v1::StudyEvent written_;                 // while gRPC writes it
  Parking parking_;
};

class WaitOperation : public grpc::ServerUnaryReactor {
 public:
  WaitOperation(const Wire& wire, grpc::CallbackServerContext* context,
                const google::longrunning::WaitOperationRequest* request,
                google::longrunning::Operation* response)
      : wire_(wire), admission_(admit(wire, *context, kMethod, Deadline::kWanted)),
        name_(request->name()), response_(response) {
    absl::Status status = admission_.status;
    if (status.ok()) {
      absl::StatusOr<std::string> id = parse_name("operations", name_, "name");
      status = id.status();
      if (id.ok()) study_ = *std::move(id);
    }
    if (!status.ok()) {
      finish(status);
      return;
    }
    // A little before the call's deadline, or after the timeout that it asked for.
    const auto left = context->deadline() - std::chrono::system_clock::now();
    int64_t wait_ms = std::max<int64_t>(
        0, std::chrono::duration_cast<std::chrono::milliseconds>(left).count() - 200);
    if (request->has_timeout()) {
      wait_ms = std::min(wait_ms, std::max<int64_t>(0, ms_of(request->timeout())));
    }
    until_ms_ = wire_.core->now_ms() + wait_ms;
    look();
  }
  void OnCancel() override { parking_.cancel(wire_.core->parked); }
  void OnDone() override { delete this; }

 private:
  static constexpr char kMethod[] = "/google.longrunning.Operations/WaitOperation";

  void look() {
    wire_.reads->post([this] {
      const uint64_t version = wire_.core->parked.version({study_topic(study_)});
      google::longrunning::GetOperationRequest request;
      request.set_name(name_);
      absl::Status found = wire_.core->denied.check(admission_.caller.identity);
      if (found.ok()) {
        found = wire_.service->studies.get_operation(admission_.caller, request, response_);
      }
      const bool over = !found.ok() || response_->done() || over_ || parking_.is_cancelled() ||
                        wire_.core->now_ms() >= until_ms_;
      if (over) return finish(found);
      parking_.park(wire_.core->parked, study_, version, until_ms_, [this](ParkedCalls::Why why) {
        over_ = why != ParkedCalls::Why::kNews;
        look();
      });
    }, kMethod);
  }
  void finish(const absl::Status& status) {
    Finish(conclude(wire_, admission_, kMethod, name_, status));
  }

  const Wire& wire_;
  const Admission admission_;
  const std::string name_;
  google::longrunning::Operation* response_;
  std::string study_;
  int64_t until_ms_ = 0;
  bool over_ = false;
  Parking parking_;
};

class Synchronize : public grpc::ServerUnaryReactor {
 public:
  Synchronize(const Wire& wire, grpc::CallbackServerContext* context,
              const v1::SynchronizeRequest* request, v1::SynchronizeResponse* response)
      : wire_(wire), admission_(admit(wire, *context, kMethod, Deadline::kNotWanted)),
        agent_(request->agent()) {
    const absl::Status status =
        admission_.status.ok() ? check_size(wire_, *request) : admission_.status;
    if (!status.ok()) {
      Finish(conclude(wire_, admission_, kMethod, agent_, status));
      return;
    }
    auto call = wire_.service->agents.synchronize(
        admission_.caller, std::make_shared<v1::SynchronizeRequest>(*request),
        [this, response](absl::Status status, v1::SynchronizeResponse answer) {
          *response = std::move(answer);
          Finish(conclude(wire_, admission_, kMethod, agent_, std::move(status)));
        });
    std::lock_guard lock(mutex_);
    call_ = std::move(call);
    if (cancelled_ && call_ != nullptr) wire_.service->agents.abandon(call_);
  }
  void OnCancel() override {
    std::shared_ptr<void> call;
    {
      std::lock_guard lock(mutex_);
      cancelled_ = true;
      call = call_;
    }
    if (call != nullptr) wire_.service->agents.abandon(call);
  }
  void OnDone() override { delete this; }

 private:
  static constexpr char kMethod[] = "/loopwright.v1.AgentService/Synchronize";
  const Wire& wire_;
  const Admission admission_;
  const std::string agent_;
  std::mutex mutex_;
  bool cancelled_ = false;
  std::shared_ptr<void> call_;
};

class Export : public grpc::ServerWriteReactor<v1::ExportRecordsResponse> {
 public:
  Export(const Wire& wire, grpc::CallbackServerContext* context,
         const v1::ExportRecordsRequest* request)
      : wire_(wire), admission_(admit(wire, *context, kMethod, Deadline::kNotWanted)),
        best_only_(request->best_only()) {
    wire_.core->metrics.add(Metric::kStreamsOpen);
    if (admission_.status.ok()) {
      next();
    } else {
      Finish(conclude(wire_, admission_, kMethod, "", admission_.status));
    }
  }
  void OnWriteDone(bool ok) override {
    if (!ok) {
      Finish(conclude(wire_, admission_, kMethod, "", absl::CancelledError("the reader has gone")));
    } else if (cursor_.over) {
      Finish(conclude(wire_, admission_, kMethod, "", absl::OkStatus()));
    } else {
      next();
    }
  }
  void OnDone() override {
    wire_.core->metrics.add(Metric::kStreamsOpen, -1);
    delete this;
  }

 private:
  static constexpr char kMethod[] = "/loopwright.v1.ScheduleService/ExportRecords";

  void next() {
    wire_.bulk->post([this] {
      written_.Clear();
      const absl::Status denied = wire_.core->denied.check(admission_.caller.identity);
      if (!denied.ok()) {
        Finish(conclude(wire_, admission_, kMethod, "", denied));
        return;
      }
      const absl::Status status =
          wire_.service->schedules.export_some(admission_.caller, best_only_, &cursor_, &written_);
      if (!status.ok()) {
        Finish(conclude(wire_, admission_, kMethod, "", status));
        return;
      }
      StartWrite(&written_);
    }, kMethod);
  }

  const Wire& wire_;
  const Admission admission_;
  const bool best_only_;
  ExportCursor cursor_;
  v1::ExportRecordsResponse written_;
};

class Import : public grpc::ServerReadReactor<v1::ImportRecordsRequest> {
 public:
  Import(const Wire& wire, grpc::CallbackServerContext* context,
         v1::ImportRecordsResponse* response)
      : wire_(wire), admission_(admit(wire, *context, kMethod, Deadline::kNotWanted)),
        response_(response) {
    wire_.core->metrics.add(Metric::kStreamsOpen);
    if (admission_.status.ok()) {
      StartRead(&request_);
    } else {
      Finish(conclude(wire_, admission_, kMethod, "", admission_.status));
    }
  }
  void OnReadDone(bool ok) override {
    if (!ok) {
      Finish(conclude(wire_, admission_, kMethod, "", absl::OkStatus()));
      return;
    }
    wire_.bulk->post([this] {
      absl::Status status = wire_.core->denied.check(admission_.caller.identity);
      if (status.ok()) status = check_size(wire_, request_);
      if (status.ok()) {
        status = wire_.service->schedules.import_some(admission_.caller, request_, response_);
      }
      if (!status.ok()) {
        Finish(conclude(wire_, admission_, kMethod, "", status));
        return;
      }
      request_.Clear();
      StartRead(&request_);
    }, kMethod);
  }
  void OnDone() override {
    wire_.core->metrics.add(Metric::kStreamsOpen, -1);
    delete this;
  }

 private:
  static constexpr char kMethod[] = "/loopwright.v1.ScheduleService/ImportRecords";
  const Wire& wire_;
  const Admission admission_;
  v1::ImportRecordsResponse* response_;
  v1::ImportRecordsRequest request_;
};

}  // namespace

grpc::ServerWriteReactor<v1::StudyEvent>* watch_study(const Wire& wire,
                                                      grpc::CallbackServerContext* context,
                                                      const v1::WatchStudyRequest* request) {
  return new Watch(wire, context, request);
}

grpc::ServerUnaryReactor* wait_operation(const Wire& wire, grpc::CallbackServerContext* context,
                                         const google::longrunning::WaitOperationRequest* request,
                                         google::longrunning::Operation* response) {
  return new WaitOperation(wire, context, request, response);
}

grpc::ServerUnaryReactor* synchronize(const Wire& wire, grpc::CallbackServerContext* context,
                                      const v1::SynchronizeRequest* request,
                                      v1::SynchronizeResponse* response) {
  return new Synchronize(wire, context, request, response);
}

grpc::ServerWriteReactor<v1::ExportRecordsResponse>* export_records(
    const Wire& wire, grpc::CallbackServerContext* context,
    const v1::ExportRecordsRequest* request) {
  return new Export(wire, context, request);
}

grpc::ServerReadReactor<v1::ImportRecordsRequest>* import_records(
    const Wire& wire, grpc::CallbackServerContext* context, v1::ImportRecordsResponse* response) {
  return new Import(wire, context, response);
}

}  // namespace lw
