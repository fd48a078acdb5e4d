// The service itself: everything the API promises, without gRPC. src/serve/wire/server.h puts it on
// the wire; tests call it directly.
//
// Several of them may share one PostgreSQL database: each holds nothing but what it could read
// again. Thread-safe. Calls block for as long as the database takes, but for synchronize(), which
// answers through a callback and may park the call.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "google/longrunning/operations.pb.h"
#include "loopwright/v1/schedule.pb.h"
#include "src/base/liveness.h"
#include "src/serve/access/auth.h"
#include "src/serve/access/limits.h"
#include "src/serve/queue/synchronize.h"
#include "src/serve/rows/audit.h"
#include "src/serve/rows/clock.h"
#include "src/serve/service/metrics.h"
#include "src/serve/service/parked.h"
#include "src/serve/studies/door.h"
#include "src/serve/studies/searcher.h"
#include "tuner_db/ladder/index.h"
#include "tuner_db/sql/group_commit.h"

namespace lw {

struct Records;

struct Caller {
  Identity identity;
  std::string peer;
  Stop stop;                               // when it has gone, or waits no longer
  std::string_view method;                 // of the permissions' table; "" in tests
};

// How far an export has come.
struct ExportCursor {
  int64_t whole = 0;                       // the last key that was given whole
  int64_t key = 0, measurement = 0;        // of this key, up to this one (0: nothing)
  bool over = false;
};

struct ServiceOptions {
  std::string version;
  ServeConfig config;
  LeaseRules rules;
  SearcherOptions searcher;
  std::string backup_folder;               // where BackupDatabase writes; "": beside the database
  std::function<int64_t()> monotonic_ms;   // tests; empty: the system's
  int64_t online_ms = 60'000;              // an agent silent for longer is offline
  int64_t forget_ms = 60'000;              // how often it looks for what is to be forgotten
  std::function<void(const StudyRow&, const Stop&)> before_search;  // tests; SearchSeat's
  bool search = true;                      // false: serves, but leaves studies to other daemons
};

class Service {
 public:
  // Fails when the database cannot be read. The database is migrated already.
  static absl::StatusOr<std::unique_ptr<Service>> start(std::shared_ptr<Database> database,
                                                        const ServiceOptions& options);
  ~Service();

  // ---- studies
  absl::Status create_study(const Caller& caller, const loopwright::v1::CreateStudyRequest& request,
                            google::longrunning::Operation* response);
  absl::Status get_study(const Caller& caller, const loopwright::v1::GetStudyRequest& request,
                         loopwright::v1::Study* response);
  absl::Status list_studies(const Caller& caller,
                            const loopwright::v1::ListStudiesRequest& request,
                            loopwright::v1::ListStudiesResponse* response);
  absl::Status cancel_study(const Caller& caller, const loopwright::v1::CancelStudyRequest& request,
                            loopwright::v1::Study* response);
  absl::Status get_operation(const Caller& caller,
                             const google::longrunning::GetOperationRequest& request,
                             google::longrunning::Operation* response);
  absl::Status list_operations(const Caller& caller,
                               const google::longrunning::ListOperationsRequest& request,
                               google::longrunning::ListOperationsResponse* response);
  absl::Status cancel_operation(const Caller& caller,
                                const google::longrunning::CancelOperationRequest& request,
                                google::protobuf::Empty* response);
  // Of a study that has ended; what was measured stays.
  absl::Status delete_operation(const Caller& caller,
                                const google::longrunning::DeleteOperationRequest& request,
                                google::protobuf::Empty* response);
  // Events with a sequence after `sequence`, at most `count`; whether the study has ended, its last
  // event then being stored. NOT_FOUND: no such study.
  absl::StatusOr<std::vector<loopwright::v1::StudyEvent>> events(const std::string& study,
                                                                 int64_t sequence, int count,
                                                                 bool* ended);

  // ---- agents
  using SyncDone = std::function<void(absl::Status, loopwright::v1::SynchronizeResponse)>;
  // `done` is called once, from any thread. What it returns may be given to abandon().
  std::shared_ptr<void> synchronize(const Caller& caller,
                      std::shared_ptr<const loopwright::v1::SynchronizeRequest> request,
                      SyncDone done);
  // The caller has gone: it gets no work, and `done` is called soon (of a call that came twice:
  // when both callers have gone, or with the other one's).
  void abandon(const std::shared_ptr<void>& call);

  // ---- schedules
  absl::Status batch_lookup(const Caller& caller, const loopwright::v1::BatchLookupRequest& request,
                            loopwright::v1::BatchLookupResponse* response);
  absl::Status put_records(const Caller& caller, const loopwright::v1::PutRecordsRequest& request,
                           loopwright::v1::PutRecordsResponse* response);
  absl::Status list_history(const Caller& caller, const loopwright::v1::ListHistoryRequest& request,
                            loopwright::v1::ListHistoryResponse* response);
  absl::Status list_schedules(const Caller& caller,
                              const loopwright::v1::ListSchedulesRequest& request,
                              loopwright::v1::ListSchedulesResponse* response);
  // Records after the cursor, about a MiB of them, which are none at times; the cursor moves on.
  // Programs are those of the caller's studies, an admin's are all.
  absl::Status export_some(const Caller& caller, bool best_only, ExportCursor* cursor,
                           loopwright::v1::ExportRecordsResponse* response);
  absl::Status import_some(const Caller& caller,
                           const loopwright::v1::ImportRecordsRequest& request,
                           loopwright::v1::ImportRecordsResponse* total);

  absl::Status withdraw_record(const Caller& caller,
                               const loopwright::v1::WithdrawRecordRequest& request,
                               loopwright::v1::WithdrawnRecord* response);
  absl::Status restore_record(const Caller& caller,
                              const loopwright::v1::RestoreRecordRequest& request,
                              loopwright::v1::RestoreRecordResponse* response);
  absl::Status list_withdrawn(const Caller& caller,
                              const loopwright::v1::ListWithdrawnRequest& request,
                              loopwright::v1::ListWithdrawnResponse* response);
  absl::Status poll_withdrawn(const Caller& caller,
                              const loopwright::v1::PollWithdrawnRequest& request,
                              loopwright::v1::PollWithdrawnResponse* response);
  absl::Status annul_measurements(const Caller& caller,
                                  const loopwright::v1::AnnulMeasurementsRequest& request,
                                  loopwright::v1::AnnulMeasurementsResponse* response);
  absl::Status reinstate_measurements(const Caller& caller,
                                      const loopwright::v1::ReinstateMeasurementsRequest& request,
                                      loopwright::v1::ReinstateMeasurementsResponse* response);

  // ---- the fleet
  absl::Status list_devices(const Caller& caller, const loopwright::v1::ListDevicesRequest& request,
                            loopwright::v1::ListDevicesResponse* response);
  absl::Status list_agents(const Caller& caller, const loopwright::v1::ListAgentsRequest& request,
                           loopwright::v1::ListAgentsResponse* response);
  absl::Status drain_devices(const Caller& caller,
                             const loopwright::v1::DrainDevicesRequest& request,
                             loopwright::v1::DrainDevicesResponse* response);
  absl::Status resume_devices(const Caller& caller,
                              const loopwright::v1::ResumeDevicesRequest& request,
                              loopwright::v1::ResumeDevicesResponse* response);
  absl::Status quarantine_device(const Caller& caller,
                                 const loopwright::v1::QuarantineDeviceRequest& request,
                                 loopwright::v1::DeviceStatus* response);
  absl::Status list_jobs(const Caller& caller, const loopwright::v1::ListJobsRequest& request,
                         loopwright::v1::ListJobsResponse* response);
  absl::Status requeue_job(const Caller& caller, const loopwright::v1::RequeueJobRequest& request,
                           loopwright::v1::JobStatus* response);
  absl::Status get_fleet(const Caller& caller, const loopwright::v1::GetFleetRequest& request,
                         loopwright::v1::Fleet* response);
  absl::Status list_audit(const Caller& caller, const loopwright::v1::ListAuditRequest& request,
                          loopwright::v1::ListAuditResponse* response);
  absl::Status backup_database(const Caller& caller,
                               const loopwright::v1::BackupDatabaseRequest& request,
                               loopwright::v1::BackupDatabaseResponse* response);

  absl::Status get_capabilities(const Caller& caller,
                                const loopwright::v1::GetCapabilitiesRequest& request,
                                loopwright::v1::GetCapabilitiesResponse* response);

  // ---- for the server
  // A call that failed, for the audit log: written behind, those like it within a minute as a
  // count. What succeeds is written with what it changes.
  void note_refusal(const Caller& caller, std::string_view method, std::string_view subject,
                    const absl::Status& outcome);
  // Whose certificates are revoked, from now on: their calls in flight and streams end too.
  void deny(std::set<std::string> denied);
  const DenyList& denied() const { return denied_; }
  // Counts anew what the gauges show; at most once a second, so that scraping costs little.
  void before_metrics();
  // Gives no more work and parks nobody; what is in flight is answered.
  void stop_giving();
  // What is wrong with it: "" when all is well; "stopping", "the database is read-only: ...".
  std::string problem() const;
  // What only a new process helps: "" or "a thread hangs in ...".
  std::string hang() const { return liveness_.problem(); }
  bool is_stopping() const { return stopping_; }
  Metrics& metrics() { return metrics_; }
  Liveness& liveness() { return liveness_; }
  ParkedCalls& parked() { return parked_; }
  Database& database() { return *database_; }
  const ServeConfig& config() const { return options_.config; }
  RateLimiter& limiter() { return limiter_; }
  InFlight& in_flight() { return in_flight_; }
  int64_t now_ms() const { return clock_.now_ms(); }
  size_t known_agents() const;             // of which something is remembered

 private:
  struct Sync;                             // a Synchronize call on its way
  struct Known;                            // an agent, as far as this daemon has heard of it
  Service(std::shared_ptr<Database> database, const ServiceOptions& options);
  // In one transaction of the group commit: idempotent by request_id; then whoever waits is told.
  template <class Request, class Response, class Body>
  absl::Status change(const Caller& caller, std::string_view method, const Request& request,
                      Response* response, Body body);
  template <class Body>
  absl::Status view(Body body);
  // Whether an answer to this request is stored.
  absl::StatusOr<bool> is_known(const Caller& caller, const std::string& request_id);
  absl::StatusOr<Records> take_in(
      const Caller& caller,
      const google::protobuf::RepeatedPtrField<loopwright::v1::Record>& messages,
      Skipped* skipped, Door::Findings* findings);
  absl::Status store_piece(const Caller& caller, std::string_view method, std::string_view subject,
                           const Records& piece, int64_t* stored);
  absl::Status may_store(Database& database, const Caller& caller, int64_t fresh);
  // The audit's line of what is done in this transaction.
  absl::Status audit_done(Database& database, const Caller& caller, std::string_view method,
                          std::string_view subject);
  // Of a request with a filter, a reason and a dry_run, into a response with measurements and keys.
  template <class Request, class Response>
  absl::Status mark_measurements(const Caller& caller, std::string_view method, bool annul,
                                 const Request& request, Response* response);
  absl::Status write_refusals(int64_t until_ms);  // the counts of minutes that ended before it
  void changed(const Changes& changes);
  void note_queued(const std::string& queue);  // one who waits for such work is woken
  bool join(const std::shared_ptr<Sync>& sync, SyncDone done);
  void attempt(std::shared_ptr<Sync> sync);
  bool needs_write(Sync& sync);
  bool is_latest(const Sync& sync);
  void answered(std::shared_ptr<Sync> sync, absl::Status status);
  Known& known(const std::string& agent);  // REQUIRES: mutex_ held
  void forget_silent_agents();
  void review(const std::string& agent);   // its devices may do other things than when it asked
  void park(std::shared_ptr<Sync> sync, uint64_t version);
  void keep_house();
  void keep_index();
  absl::Status sweep();
  absl::Status refresh();
  absl::Status keep_time();
  absl::Status forget();                   // a piece of what retention lets go
  void tell_forgotten();                   // the log
  absl::Status measure_fleet();
  void index_now(const Key& key);          // the same, before this returns
  void note_key(const Key& key);           // its best may be another now
  int64_t online_since() const { return now_ms() - options_.online_ms; }

  const std::shared_ptr<Database> database_;
  const std::unique_ptr<Store> store_;
  const ServiceOptions options_;
  ServiceClock clock_;
  Metrics metrics_;
  Liveness liveness_;
  RateLimiter limiter_;
  InFlight in_flight_;
  DenyList denied_;
  Refusals refusals_;
  ParkedCalls parked_;
  Door door_;
  std::unique_ptr<LadderIndex> index_;
  std::unique_ptr<GroupCommit> commit_;
  Shares shares_;                          // used by the commit's thread alone
  std::unique_ptr<Searcher> searcher_;

  mutable std::mutex mutex_;               // guards the agents and the queue's state
  std::map<std::string, std::shared_ptr<Known>> agents_;
  std::set<std::string> maybe_queued_;     // queues that may have jobs ready
  std::vector<Key> news_;                  // keys whose best may be another now

  struct Forgetting {
    std::mutex mutex;                      // guards all below
    bool is_busy = false;                  // a piece is on its way to the writer
    int64_t next_ms = 0;                   // when to look again
    int64_t told_ms = 0;                   // when the log was told
    Forgotten since;                       // then
  };
  Forgetting forgetting_;

  std::mutex house_mutex_;
  std::condition_variable house_changed_;
  bool stop_ = false;
  std::atomic<bool> stopping_{false};
  int64_t started_ms_ = 0;
  std::atomic<int64_t> measured_ms_{0};    // when before_metrics() last counted
  std::thread house_, indexer_;
};

}  // namespace lw
