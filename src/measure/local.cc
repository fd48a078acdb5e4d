// The local Measurer: a short assembly line in threads of the parent that mostly wait.
//
//   submit -> [to build] -> builder threads, each with a builder process
//          -> [built]    -> the measuring thread, with the measurer process -> [done] -> poll
//
// Where processors suffice, builders and the measurer have their own and run side by side: a 512^3
// GEMM is built in about 15 ms and measured in about as much, so 30 candidates a second pass. What
// takes longer to build is built on the measurer's processors too, while it has nothing to measure.
// Where the kernel uses every processor, the line alternates: builders rest while the measurer works
// off what is built, which it takes in small batches.
//
// Where a clock is exact, builders compute times too, on all processors side by side, and the
// measurer runs only what is to be believed: of others no artifact leaves its builder. Outcomes come
// as they were asked for (batch_order.h).
#include "src/measure/local.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <limits>
#include <mutex>
#include <thread>

#include "schedules/targets/target.h"
#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/message.h"
#include "src/base/parallel_pool.h"
#include "src/measure/batch_order.h"
#include "src/measure/drivers.h"
#include "src/measure/measure_client.h"
#include "src/search/retry.h"

namespace lw {
namespace {

constexpr std::chrono::milliseconds kLookEvery(50);  // at what may stop a comparison
// Built before the measurer takes over, when alternating; or what there is when the first of them
// has waited for so long, as builds of drivers take seconds.
constexpr size_t kBatch = 8;
constexpr double kLongestWaitS = 2;

// Finalists that are measured together; complete when every member is built or failed.
struct Group {
  std::vector<Built> members;
  std::vector<Outcome> outcomes;
  size_t missing = 0;
  int rounds = 0;
  bool done = false;
};

struct Job {
  Built built;
  std::shared_ptr<Group> group;  // null: an ordinary candidate
  size_t member = 0;
  int tries = 1;
};

class LocalMeasurer : public Measurer {
 public:
  LocalMeasurer(std::unique_ptr<Workbench> bench, std::unique_ptr<Zygote> zygote)
      : bench_(std::move(bench)), zygote_(std::move(zygote)), callers_cpus_(allowed_cpus()) {
    if (bench_->parted()) pin_to(bench_->building);
    const int builders = bench_->builders + (has_spare() ? 1 : 0);
    for (int i = 0; i < builders; ++i) threads_.emplace_back([this, i] { build_all(i); });
    threads_.emplace_back([this] { measure_all(); });
  }

  ~LocalMeasurer() override {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      stop_ = true;
      to_build_.clear();
      built_.clear();
    }
    changed_.notify_all();
    zygote_->shut_down();  // nobody waits for the work in progress
    for (std::thread& thread : threads_) thread.join();
    if (bench_->parted() && std::this_thread::get_id() == caller_) pin_to(callers_cpus_);
  }

  void submit(std::vector<Candidate> batch) override {
    std::lock_guard<std::mutex> lock(mutex_);
    if (is_exact()) order_.ask(batch);
    for (Candidate& candidate : batch) {
      Job job;
      job.built.candidate = std::move(candidate);
      to_build_.push_back(std::move(job));
    }
    changed_.notify_all();
  }

  std::vector<Outcome> poll(double timeout_s) override {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait_for(lock, std::chrono::duration<double>(std::min(timeout_s, 1e6)),
                      [&] { return !done_.empty() || order_.ready(); });
    if (is_exact()) return order_.ready() ? of_our_kind(order_.take()) : std::vector<Outcome>();
    return of_our_kind(std::exchange(done_, {}));
  }

  bool wants_quiet() const override { return bench_->wants_quiet(); }
  TimeKind time_kind() const override { return bench_->driver.time_kind; }

  void cancel() override {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto ordinary = [](const Job& job) { return job.group == nullptr; };
    for (const std::deque<Job>* const line : {&to_build_, &built_}) {
      for (const Job& job : *line) {
        if (ordinary(job)) order_.drop(job.built.candidate.ticket);
      }
    }
    to_build_.erase(std::remove_if(to_build_.begin(), to_build_.end(), ordinary), to_build_.end());
    built_.erase(std::remove_if(built_.begin(), built_.end(), ordinary), built_.end());
    changed_.notify_all();
  }

  std::vector<Outcome> interleave(std::vector<Candidate> batch, int rounds) override {
    if (batch.empty()) return {};
    std::shared_ptr<Group> group = std::make_shared<Group>();
    group->members.resize(batch.size());
    group->outcomes.resize(batch.size());
    group->missing = batch.size();
    group->rounds = std::max(rounds, 1);
    std::unique_lock<std::mutex> lock(mutex_);
    for (size_t i = 0; i < batch.size(); ++i) {
      Job job;
      job.built.candidate = batch[i];
      job.group = group;
      job.member = i;
      to_build_.push_front(std::move(job));
    }
    changed_.notify_all();
    while (!group->done && !bench_->options.stop.asked()) {
      changed_.wait_for(lock, kLookEvery, [&] { return group->done; });
    }
    if (group->done) return of_our_kind(group->outcomes);
    std::vector<Outcome> lost(batch.size());
    for (size_t i = 0; i < lost.size(); ++i) {
      lost[i].ticket = batch[i].ticket;
      lost[i].verdict = Verdict::kWorkerLost;
      lost[i].detail = "measuring was stopped";
    }
    return lost;
  }

 private:
  std::vector<Outcome> of_our_kind(std::vector<Outcome> outcomes) const {
    for (Outcome& outcome : outcomes) outcome.time_kind = time_kind();
    return outcomes;
  }

  // A builder's thread; of the spare one, which stands where the measurer does, too.
  void build_all(int index) {
    const bool spare = index == bench_->builders;
    WorkerLink builder(zygote_.get(), bench_.get(), kBuilder + index);
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] {
        return stop_ || (!to_build_.empty() && (spare ? is_idle() : may_build()));
      });
      if (stop_) return;
      Job job = std::move(to_build_.front());
      to_build_.pop_front();
      ++building_;
      if (spare) spare_builds_ = true;
      lock.unlock();
      Outcome failure;
      const bool ok = bench_->driver.compute != nullptr
                          ? compute(builder, job.group != nullptr, &job.built, &failure)
                          : build(builder, &job.built, &failure);
      lock.lock();
      --building_;
      if (spare) spare_builds_ = false;
      if (!ok && failure.verdict == Verdict::kWorkerLost && job.tries < kMeasurerTries) {
        ++job.tries;
        to_build_.push_back(std::move(job));
      } else if (job.group != nullptr) {
        join_group(std::move(job), ok, std::move(failure));
      } else if (ok) {
        built_.push_back(std::move(job));
      } else {
        finish(std::move(failure));
      }
      note_wait();
      changed_.notify_all();
    }
  }

  // By a builder of its own, where the measurer will run: until the reference is there nothing is
  // measured, and the first candidates are built beside it.
  std::string build_reference() {
    Built reference;
    reference.candidate.kernel = bench_->options.reference;
    if (reference.candidate.kernel == nullptr) return "";
    WorkerLink builder(zygote_.get(), bench_.get(), kBuilder + bench_->builders);
    Outcome failure;
    build(builder, &reference, &failure);
    return std::move(reference.artifact);
  }

  bool build(WorkerLink& builder, Built* built, Outcome* failure) {
    const Answer answer = ask(builder, kBuild, Writer(), built, failure);
    Reader reader(answer.payload);
    built->artifact = reader.get_string();
    if (reader.get<bool>()) builder.stop();
    return answer.ok;
  }

  // `all`: it is run however long it takes.
  bool compute(WorkerLink& builder, bool all, Built* built, Outcome* failure) {
    const double below_us = all ? std::numeric_limits<double>::infinity()
                                : MeasureClient::run_below_us(built->candidate);
    const Answer answer = ask(builder, kCompute, Writer().put(below_us), built, failure);
    Reader reader(answer.payload);
    built->us = reader.get<double>();
    built->times = reader.get_string();
    built->artifact = reader.get_string();
    return answer.ok;
  }

  // The kernel's text and what follows it.
  Answer ask(WorkerLink& builder, MessageType type, const Writer& rest, Built* built,
             Outcome* failure) {
    const double begin = now();
    Answer answer;
    if (built->candidate.kernel->arguments != static_cast<int>(bench_->arguments.size())) {
      answer = {false, Verdict::kBuildError, "the kernel is of another program", ""};
    } else {
      builder.renew();
      answer = builder.ask(
          type, Writer().put_string(print(*built->candidate.kernel)).bytes() + rest.bytes(),
          bench_->options.build_timeout_s, "building");
    }
    built->build_s = now() - begin;
    failure->ticket = built->candidate.ticket;
    failure->build_s = built->build_s;
    failure->verdict = answer.verdict;
    failure->detail = answer.detail;
    return answer;
  }

  // REQUIRES: the lock is held.
  void join_group(Job job, bool ok, Outcome failure) {
    Group& group = *job.group;
    if (!ok) group.outcomes[job.member] = std::move(failure);
    group.members[job.member] = std::move(job.built);
    if (--group.missing > 0) return;
    built_.push_front(std::move(job));
  }

  // The measuring thread.
  void measure_all() {
    MeasureClient client(zygote_.get(), bench_.get());
    client.prepare([this] { return build_reference(); });
    std::unique_lock<std::mutex> lock(mutex_);
    prepared_ = true;
    while (true) {
      measuring_ = overdue_ = false;
      first_built_ = std::numeric_limits<double>::infinity();
      changed_.notify_all();
      changed_.wait(lock, [&] { return stop_ || (!built_.empty() && may_measure()); });
      if (stop_) return;
      measuring_ = true;
      while (!built_.empty() && !stop_) {
        Job job = take_built();
        lock.unlock();
        std::vector<Outcome> outcomes = job.group ? std::vector<Outcome>() : measure(client, job);
        if (job.group) measure_group(client, *job.group);
        lock.lock();
        if (job.group) job.group->done = true;
        for (Outcome& outcome : outcomes) finish(std::move(outcome));
        changed_.notify_all();
      }
    }
  }

  bool is_exact() const { return bench_->driver.clock == Clock::kExact; }

  // REQUIRES: the lock is held.
  void finish(Outcome outcome) {
    if (is_exact()) order_.finish(std::move(outcome));
    else done_.push_back(std::move(outcome));
  }

  // In their order; where times are known, first what is not to be run and then the fastest: who is
  // behind it need not be run. REQUIRES: the lock is held, and there is one.
  Job take_built() {
    const auto cost = [](const Job& job) {
      return std::pair(job.built.us > 0 && !job.built.artifact.empty(), job.built.us);
    };
    const auto next = std::min_element(
        built_.begin(), built_.end(),
        [&](const Job& a, const Job& b) { return cost(a) < cost(b); });
    Job job = std::move(*next);
    built_.erase(next);
    return job;
  }

  static std::vector<Outcome> measure(MeasureClient& client, const Job& job) {
    Outcome outcome = client.measure(job.built);
    for (int tries = 1; is_retried(outcome.verdict) && tries < kMeasurerTries; ++tries) {
      outcome = client.measure(job.built);
    }
    return {std::move(outcome)};
  }

  static void measure_group(MeasureClient& client, Group& group) {
    std::vector<Built> whole;
    std::vector<size_t> members;
    for (size_t i = 0; i < group.members.size(); ++i) {
      if (group.outcomes[i].verdict != Verdict::kOk) continue;
      members.push_back(i);
      whole.push_back(std::move(group.members[i]));
    }
    std::vector<Outcome> outcomes = client.interleave(whole, group.rounds);
    for (size_t k = 0; k < members.size(); ++k) group.outcomes[members[k]] = std::move(outcomes[k]);
  }

  // Where a build has ended: whoever waits looks at the clock only then. REQUIRES: the lock is held.
  void note_wait() {
    if (!built_.empty()) first_built_ = std::min(first_built_, now());
    overdue_ = now() - first_built_ > kLongestWaitS;
  }

  // Where nobody is disturbed, everybody works at once. REQUIRES (all): the lock is held.
  bool batch_is_built() const {
    return built_.size() >= kBatch || (overdue_ && !built_.empty());
  }
  bool may_build() const { return !wants_quiet() || (!measuring_ && !batch_is_built()); }
  bool may_measure() const {
    if (!wants_quiet()) return !spare_builds_;
    return building_ == 0 && (to_build_.empty() || batch_is_built());
  }
  // A builder more, on the processors of the measurer: the two take turns.
  bool has_spare() const { return bench_->parted() && !is_exact() && !bench_->driver.elsewhere; }
  bool is_idle() const { return prepared_ && !measuring_ && built_.empty(); }

  const std::unique_ptr<Workbench> bench_;
  const std::unique_ptr<Zygote> zygote_;
  const std::thread::id caller_ = std::this_thread::get_id();
  const std::vector<int> callers_cpus_;
  std::vector<std::thread> threads_;

  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  bool stop_ = false;
  bool measuring_ = false;
  bool prepared_ = false;                  // the measurer, whose reference the spare builder built
  bool spare_builds_ = false;
  int building_ = 0;
  std::deque<Job> to_build_, built_;
  double first_built_ = std::numeric_limits<double>::infinity();  // since it was measured last
  bool overdue_ = false;                   // that one waited too long when a build ended
  std::vector<Outcome> done_;
  BatchOrder order_;  // of an exact clock, instead
};

}  // namespace

absl::StatusOr<std::unique_ptr<Measurer>> make_local_measurer(const Program& program,
                                                              const Target& target,
                                                              const LocalOptions& options) {
  ASSIGN_OR_RETURN(DeviceDriver driver, find_driver(target, options));
  ASSIGN_OR_RETURN(std::unique_ptr<Workbench> bench,
                   make_workbench(program, target, options, std::move(driver)));
  return start_measurer(std::move(bench));
}

absl::StatusOr<std::unique_ptr<Measurer>> start_measurer(std::unique_ptr<Workbench> bench) {
  Workbench* shared = bench.get();
  Zygote::Main main = [shared](int role, int socket, const Isolation& isolation) {
    if (role >= kBuilder) builder_main(*shared, 1 + role - kBuilder, socket, isolation);
    if (role == kMeasurer) device_main(*shared, socket, isolation);
    if (role == kPreparer) preparer_main(*shared, socket, isolation);
  };
  ASSIGN_OR_RETURN(std::unique_ptr<Zygote> zygote,
                   Zygote::start(main, descriptors(*bench), bench->options.isolation,
                                 bench->driver.shut_in));
  return std::make_unique<LocalMeasurer>(std::move(bench), std::move(zygote));
}

}  // namespace lw
