// The lease state machine against a model of it: random claims, results (right, stale, repeated,
// failed, given back, malformed), renewals, expiries, new sessions, cancellations and requeues on a
// clock of the test's own; after each operation every job is as the model says. 3 seeds of 500
// operations.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schedules/targets/target.h"
#include "src/serve/messages/names.h"
#include "src/serve/queue/synchronize.h"
#include "src/serve/studies/studies.h"
#include "tests/support/fault_fixture.h"

namespace lw {
namespace {

constexpr int kAgents = 4;

struct ModelJob {
  std::string state = "queued";
  int attempt = 0, lost = 0, candidates = 1;
  int64_t epoch = 0, run_after = 0, lease_until = 0;
  int agent = -1;
  std::set<int> lost_on;
  std::string digest;
  v1::Job given;                             // what the latest holder got
  std::string text() const {
    std::string lost;
    for (int a : lost_on) lost += absl::StrCat(" a", a);
    return absl::StrCat(state, " attempt ", attempt, " epoch ", epoch, " of ", candidates, " by ",
                        state == "leased" ? absl::StrCat("a", agent, " until ", lease_until) : "-",
                        " lost on", lost);
  }
};

class Machine {
 public:
  explicit Machine(uint64_t seed)
      : rng_(seed), database_(*open_sqlite(scratch_.file, {})), store_(make_store(database_)) {
    for (int a = 0; a < kAgents; ++a) {
      agents_.push_back(FleetAgent(absl::StrCat("a", a), "0", {absl::StrCat("d", a)}));
    }
    target_ = agents_[0].description().target_id();
    const CheckedSpec spec = *check_spec(small_study(8), Quotas());
    must([&](WriteTransaction& tx) -> absl::Status {
      const Identity ci{CallerRole::kClient, "ci", true};
      ASSIGN_OR_RETURN(StudyRow study, create_study(tx, spec, ci, Quotas(), now_, &changes_));
      study_ = study.id;
      study.target = study.device_target = target_;
      study.state = v1::STUDY_STATE_RUNNING;
      RETURN_IF_ERROR(store_in(tx)->put_target(target_, *find_target("x86_avx2")));
      RETURN_IF_ERROR(update_study(tx, study));
      return tx.query("UPDATE study_workloads SET backend = ?, threads = 1",
                      agents_[0].description().backend()).run();
    });
    for (FleetAgent& agent : agents_) call(agent, 0);
  }

  void step() {
    const int a = static_cast<int>(rng_.below(kAgents));
    switch (rng_.below(10)) {
      case 0: insert(); break;
      case 1:
      case 2: claim(a); break;
      case 3:
      case 4: result(a, false); break;
      case 5: result(a, true); break;
      case 6: now_ += rng_.below(3000); break;
      case 7: expire(); break;
      case 8: rng_.below(4) == 0 ? restart(a) : renew(a); break;
      default: fail(a); break;
    }
    if (rng_.below(80) == 0) now_ += rules_.ttl_ms + 1;
  }

  void cancel() {
    ended_ = true;
    must([&](WriteTransaction& tx) -> absl::Status {
      ASSIGN_OR_RETURN(std::optional<StudyRow> study, find_study(tx, study_));
      return end_study(tx, *study, v1::STUDY_STATE_CANCELLED, "", now_, &changes_);
    });
    for (auto& [id, job] : model_) {
      if (job.state == "queued" || job.state == "leased") job.state = "cancelled";
    }
  }

  void expect_equal() {
    std::map<int64_t, std::string> rows, model;
    CHECK(database_->read(5, [&](Transaction& tx) -> absl::Status {
      ASSIGN_OR_RETURN(const std::vector<JobRow> jobs, select_jobs(tx, "ORDER BY id", {}));
      for (const JobRow& row : jobs) {
        ModelJob job;
        job.state = state_name(row.state);
        job.attempt = row.attempt, job.epoch = row.epoch, job.candidates = row.candidates;
        if (job.state == "leased") {
          job.agent = row.agent[1] - '0';
          job.lease_until = row.lease_until;
        }
        for (const std::string& lost : row.lost_on) job.lost_on.insert(lost[1] - '0');
        rows[row.id] = job.text();
      }
      return absl::OkStatus();
    }).ok());
    for (const auto& [id, job] : model_) model[id] = job.text();
    EXPECT_EQ(rows, model) << log_;
  }

  void expect_sound() {
    // A charged crash is a measurement of a dead job of one.
    int64_t wanted = 0;
    for (const auto& [id, job] : model_) {
      if (job.state == "done") wanted += job.candidates;
    }
    EXPECT_THAT(column(*database_, "SELECT count(*) FROM measurements"),
                testing::ElementsAre(std::to_string(wanted + charged_)));
    EXPECT_THAT(*store_->check(), testing::IsEmpty());
    EXPECT_THAT(column(*database_, "SELECT study FROM events GROUP BY study HAVING count(*) <> "
                                   "max(sequence)"), testing::IsEmpty());
  }

  const std::string& log() const { return log_; }

 private:
  void must(const std::function<absl::Status(WriteTransaction&)>& body) {
    changes_ = Changes();
    const absl::Status status = database_->write(5, body);
    EXPECT_TRUE(status.ok()) << status;
  }
  void say(const std::string& line) { absl::StrAppend(&log_, line, "\n"); }

  int64_t newest() const { return model_.empty() ? 0 : model_.rbegin()->first; }

  void insert() {
    if (ended_) return;                    // nobody searches for a study that has ended
    const int count = 1 + static_cast<int>(rng_.below(3));
    JobRow job;
    job.backend = agents_[0].description().backend();
    job.study = study_, job.client = "ci", job.target = target_;
    job.created_ms = now_, job.candidates = count;
    job.payload.set_kind(v1::JOB_KIND_MEASURE);
    for (int i = 0; i < count; ++i) {
      v1::CandidateSpec& candidate = *job.payload.add_candidates();
      candidate.set_index(i);
      candidate.set_trace(make_trace(traces_++));
      job.sources.push_back("evolve");
    }
    must([&](WriteTransaction& tx) { return insert_job(tx, job).status(); });
    model_[newest() + 1].candidates = count;
    say(absl::StrCat("insert ", newest(), " of ", count));
  }

  v1::SynchronizeResponse call(FleetAgent& agent, int wanted, bool latest = true,
                               const std::vector<v1::JobResult>& results = {}) {
    v1::SynchronizeRequest request = agent.request(wanted, 0);
    request.clear_results();
    for (const v1::JobResult& result : results) *request.add_results() = result;
    SyncCall call;
    call.request = &request;
    call.is_latest = latest;
    SyncAnswer answer;
    EXPECT_TRUE(check_request(request).ok());
    must([&](WriteTransaction& tx) {
      return synchronize(tx, call, shares_, rules_, now_, &answer);
    });
    agent.apply(answer.response);
    return answer.response;
  }

  // What an agent lists is renewed when a third of its time is over; the rest of what it has is
  // lost.
  void renewed(int a, const std::set<int64_t>& listed) {
    for (auto& [id, job] : model_) {
      if (job.state != "leased" || job.agent != a) continue;
      if (!listed.contains(id)) {
        give_back(job, now_);
      } else if (job.lease_until - now_ < rules_.ttl_ms * 2 / 3) {
        job.lease_until = now_ + rules_.ttl_ms;
      }
    }
  }
  std::set<int64_t> listed(int a) const {
    std::set<int64_t> ids;
    for (const v1::Job& held : agents_[a].held()) {
      const int64_t id = *parse_job_name(held.name(), "");
      if (model_.at(id).epoch == held.epoch()) ids.insert(id);
    }
    return ids;
  }

  void claim(int a) {
    const int wanted = 1 + static_cast<int>(rng_.below(2));
    renewed(a, listed(a));
    std::vector<int64_t> expected;
    for (auto& [id, job] : model_) {
      if (static_cast<int>(expected.size()) == wanted) break;
      if (job.state == "queued" && job.run_after <= now_) expected.push_back(id);
    }
    for (int64_t id : expected) {
      ModelJob& job = model_[id];
      job.state = "leased", job.agent = a;
      ++job.attempt, ++job.epoch;
      job.lease_until = now_ + rules_.ttl_ms;
    }
    const v1::SynchronizeResponse response = call(agents_[a], wanted);
    std::vector<int64_t> got;
    for (const v1::Job& job : response.jobs()) {
      const int64_t id = *parse_job_name(job.name(), "");
      EXPECT_EQ(job.epoch(), model_[id].epoch);
      EXPECT_EQ(job.candidates_size(), model_[id].candidates);
      model_[id].given = job;
      got.push_back(id);
    }
    EXPECT_EQ(got, expected);
    say(absl::StrCat("a", a, " claims ", got.size(), " at ", now_));
  }

  void renew(int a) {
    renewed(a, listed(a));
    call(agents_[a], 0);
    say(absl::StrCat("a", a, " renews at ", now_));
  }

  // An attempt that nobody is to blame for has ended.
  void give_back(ModelJob& job, int64_t run_after) {
    job.state = job.attempt >= rules_.most_attempts ? "dead" : "queued";
    job.run_after = run_after;
  }
  // A job's holder disappeared.
  void lose(int64_t id, ModelJob& job) {
    job.lost_on.insert(job.agent);
    const bool poison = static_cast<int>(job.lost_on.size()) >= rules_.poison_agents ||
                        ++job.lost >= rules_.most_attempts;
    if (!poison) {
      give_back(job, now_);
      return;
    }
    job.state = "dead";
    if (job.candidates == 1) {
      charged_ += !ended_;
      return;
    }
    for (int i = 0; i < job.candidates; ++i) splits_.push_back(id);
  }
  void add_splits() {
    for (size_t i = 0; i < splits_.size(); ++i) model_[newest() + 1] = ModelJob();
    splits_.clear();
  }

  void expire() {
    std::vector<std::pair<int64_t, int64_t>> due;  // as the index gives them
    for (auto& [id, job] : model_) {
      if (job.state == "leased" && job.lease_until < now_) due.emplace_back(job.lease_until, id);
    }
    std::sort(due.begin(), due.end());
    for (const auto& [until, id] : due) lose(id, model_[id]);
    add_splits();
    must([&](WriteTransaction& tx) {
      return expire_leases(tx, rules_, 200, now_, &changes_).status();
    });
    say(absl::StrCat(due.size(), " leases expire at ", now_));
  }

  void restart(int a) {
    for (auto& [id, job] : model_) {
      if (job.state == "leased" && job.agent == a) lose(id, job);
    }
    add_splits();
    agents_[a] =
        FleetAgent(absl::StrCat("a", a), absl::StrCat(++sessions_), {absl::StrCat("d", a)});
    call(agents_[a], 0);
    say(absl::StrCat("a", a, " restarts"));
  }

  // A result of a job that the agent has, or ever had.
  int64_t some_job(int a, bool stale) {
    std::vector<int64_t> ids;
    for (const auto& [id, job] : model_) {
      const bool current = job.state == "leased" && job.agent == a;
      if (stale ? job.given.candidates_size() > 0 : current) ids.push_back(id);
    }
    return ids.empty() ? 0 : ids[static_cast<size_t>(rng_.below(static_cast<int64_t>(ids.size())))];
  }

  v1::ReceiptKind accept(int a, int64_t id, const v1::JobResult& result) {
    ModelJob& job = model_[id];
    if (job.state == "done" && job.epoch == result.epoch() && job.agent == a &&
        job.digest == result.digest()) {
      return v1::RECEIPT_KIND_DUPLICATE;
    }
    const bool holder = job.state == "leased" && job.agent == a && job.epoch == result.epoch();
    if (!holder) return v1::RECEIPT_KIND_LEASE_LOST;
    if (job.lease_until < now_) {
      lose(id, job);
      add_splits();
      return v1::RECEIPT_KIND_LEASE_LOST;
    }
    if (result.abandoned()) {
      give_back(job, now_);
      return v1::RECEIPT_KIND_STORED;
    }
    const bool whole = result.outcomes_size() == job.candidates;
    if (result.failure() != v1::VERDICT_UNSPECIFIED || !whole) {
      const v1::ReceiptKind kind = result.failure() != v1::VERDICT_UNSPECIFIED
                                       ? v1::RECEIPT_KIND_STORED : v1::RECEIPT_KIND_REFUSED;
      give_back(job, now_ + (rules_.backoff_ms << std::min(job.attempt - 1, 6)));
      return kind;
    }
    job.state = "done", job.digest = result.digest();
    return v1::RECEIPT_KIND_STORED;
  }

  void send(int a, int64_t id, const v1::JobResult& result, const std::string& what) {
    const v1::ReceiptKind expected = accept(a, id, result);
    // Holders list what they still have.
    std::set<int64_t> held = listed(a);
    renewed(a, held);
    const v1::SynchronizeResponse response = call(agents_[a], 0, true, {result});
    ASSERT_EQ(response.receipts_size(), 1);
    say(absl::StrCat("a", a, " sends ", what, " of ", id, " epoch ", result.epoch(), ": ",
                     response.receipts(0).kind()));
    EXPECT_EQ(response.receipts(0).kind(), expected) << log_;
  }

  void result(int a, bool stale) {
    const int64_t id = some_job(a, stale);
    if (id == 0) return;
    v1::JobResult made = measured(model_[id].given);
    if (stale && rng_.below(2) == 0) made.set_epoch(made.epoch() - 1 + rng_.below(3));
    send(a, id, made, stale ? "some result" : "its result");
  }

  void fail(int a) {
    const int64_t id = some_job(a, false);
    if (id == 0) return;
    v1::JobResult made = measured(model_[id].given);
    switch (rng_.below(3)) {
      case 0: made.set_abandoned(true); break;
      case 1:
        made.clear_outcomes();
        made.set_failure(v1::VERDICT_DEVICE_UNHEALTHY);
        break;
      default: made.mutable_outcomes()->RemoveLast(); break;
    }
    send(a, id, made, "a failure");
  }

  Scratch scratch_;
  Rng rng_;
  const std::shared_ptr<Database> database_;
  const std::unique_ptr<Store> store_;
  std::vector<FleetAgent> agents_;
  std::string target_, study_, log_;
  LeaseRules rules_{.quarantine_failures = 1 << 30, .unproven_jobs = 1 << 30, .probation_ms = 0,
                    .free_losses = 1 << 30};
  Shares shares_;
  Changes changes_;
  std::map<int64_t, ModelJob> model_;
  std::vector<int64_t> splits_;
  int64_t now_ = 1'795'285'917'000;
  int traces_ = 1, sessions_ = 0;
  int64_t charged_ = 0;
  bool ended_ = false;
};

TEST(LeaseModel, RandomOperations) {
  for (uint64_t seed = 1; seed <= 3 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Machine machine(seed);
    for (int i = 0; i < 500 && !testing::Test::HasFailure(); ++i) {
      machine.step();
      machine.expect_equal();
    }
    machine.cancel();
    for (int i = 0; i < 50 && !testing::Test::HasFailure(); ++i) machine.step();
    machine.expect_sound();
    if (testing::Test::HasFailure()) std::fprintf(stderr, "%s", machine.log().c_str());
  }
}

}  // namespace
}  // namespace lw
