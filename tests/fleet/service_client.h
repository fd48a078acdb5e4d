// A client that may be killed at any moment: submits studies, watches and cancels them, puts
// records and looks up, and writes to a journal what it is about to ask and what was acknowledged,
// one line each, so that its next life repeats what has no answer with the same request id.
//
//   want KIND ID ARGUMENT      before a request is first sent; KIND: study, cancel, put
//   done KIND ID ANSWER        acknowledged: the study's name, its state, how many were stored
//   saw STUDY SEQUENCE SHA256  an event that a watch brought
//   ended STUDY STATE          after the end of all requests
//   wrong TEXT                 a promise that did not hold
//
// A write() to a file survives the writer's SIGKILL. What a request says follows from its id.
#pragma once

#include <fcntl.h>
#include <grpcpp/create_channel.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "loopwright/client.h"
#include "loopwright/v1/schedule.grpc.pb.h"
#include "loopwright/v1/study.grpc.pb.h"
#include "src/api/task.h"
#include "src/base/hash.h"
#include "src/base/rng.h"
#include "src/expr/language/text.h"
#include "src/search/search.h"
#include "tests/support/program.h"
#include "tests/support/service_processes.h"
#include "tuner_db/messages/messages.h"

namespace lw {

struct JournalLine {
  std::string what, kind, id, rest;        // of "saw": the study, the sequence, the digest
};

inline std::vector<JournalLine> read_journal(const std::string& path) {
  std::vector<JournalLine> lines;
  for (const std::string& text : lines_of(path)) {
    JournalLine line;
    std::istringstream words(text);
    words >> line.what;
    if (line.what == "wrong") {
      line.rest = text.substr(6);
    } else {
      words >> line.kind >> line.id >> line.rest;
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

class KillableClient {
 public:
  // Studies are of 1 to `workloads` workloads.
  KillableClient(const std::string& address, const std::string& journal, uint64_t seed,
                 int workloads)
      : workloads_(workloads),
        journal_(open(journal.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
    arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 200);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);
    const auto channel =
        grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
    tuning_ = loopwright::v1::TuningService::NewStub(channel);
    schedules_ = loopwright::v1::ScheduleService::NewStub(channel);
    const std::vector<JournalLine> past = read_journal(journal);
    for (const JournalLine& line : past) remember(line);
    rng_ = Rng(hash_combine(seed, past.size()));
  }
  ~KillableClient() { close(journal_); }

  // Until `finish` says so; then what has no answer yet is asked for again, and all studies are
  // awaited.
  void run(const std::function<bool()>& finish) {
    finish_ = &finish;
    while (!finish()) {
      repeat_wants();
      act();
      pause_ms(rng_.below(40));
    }
    repeat_wants();
    for (const auto& [id, name] : studies_) {
      loopwright::v1::Study study;
      while (!get(name, &study) || study.end_time().seconds() == 0) pause_ms(50);
      write(absl::StrCat("ended ", name, " ",
                         loopwright::v1::StudyState_Name(study.progress().state())));
    }
  }

 private:
  using Context = grpc::ClientContext;

  void write(const std::string& line) {
    const std::string text = line + "\n";
    CHECK(::write(journal_, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }

  void remember(const JournalLine& line) {
    if (line.what == "want") wants_[line.id] = line;
    if (line.what == "done") {
      wants_.erase(line.id);
      if (line.kind == "study") studies_[line.id] = line.rest;
    }
    if (line.what == "saw")
      seen_[line.kind] = std::max<int64_t>(seen_[line.kind], std::stoll(line.id));
  }

  // Whether it went well. What a dying or absent server says is no answer; all else is wrong.
  bool answered(const grpc::Status& status, const std::string& what) {
    if (status.ok()) return true;
    const grpc::StatusCode code = status.error_code();
    if (code == grpc::UNAVAILABLE || code == grpc::DEADLINE_EXCEEDED || code == grpc::CANCELLED ||
        code == grpc::RESOURCE_EXHAUSTED) {
      pause_ms(20);
      return false;
    }
    write(absl::StrCat("wrong ", what, ": ", static_cast<int>(code), " ", status.error_message()));
    pause_ms(200);
    return false;
  }

  static void limit(Context* context, int64_t ms) {
    context->set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(ms));
  }

  std::string new_id() {
    const uint64_t a = rng_.next(), b = rng_.next();
    return absl::StrFormat("%08x-%04x-4%03x-%04x-%012x", a >> 32, (a >> 16) & 0xFFFF, a & 0xFFF,
                           0x8000 | ((b >> 48) & 0x3FFF), b & 0xFFFFFFFFFFFF);
  }

  void want(const std::string& kind, const std::string& argument = "-") {
    JournalLine line{"want", kind, new_id(), argument};
    write(absl::StrCat("want ", kind, " ", line.id, " ", argument));
    remember(line);
  }

  void repeat_wants() {
    while (!wants_.empty()) {
      const JournalLine line = wants_.begin()->second;
      std::string answer;
      if (!ask(line, &answer)) continue;
      write(absl::StrCat("done ", line.kind, " ", line.id, " ", answer));
      remember({"done", line.kind, line.id, answer});
      if (rng_.below(4) > 0) continue;
      std::string again;                   // as if the answer had been lost
      if (ask(line, &again) && again != answer) {
        write(absl::StrCat("wrong ", line.kind, " ", line.id, ": ", answer, ", then ", again));
      }
    }
  }

  bool ask(const JournalLine& line, std::string* answer) {
    if (line.kind == "study") return create(line.id, answer);
    return line.kind == "cancel" ? cancel(line.id, line.rest, answer) : put(line.id, answer);
  }

  bool create(const std::string& id, std::string* answer) {
    Rng rng(hash64(id));
    loopwright::v1::CreateStudyRequest request;
    request.set_request_id(id);
    loopwright::v1::StudySpec& spec = *request.mutable_spec();
    const int count = 1 + static_cast<int>(rng.below(workloads_));
    for (int i = 0; i < count; ++i) {
      const absl::StatusOr<Task> task = random_task(rng);
      CHECK(task.ok());
      loopwright::v1::StudyWorkload& workload = *spec.add_workloads();
      workload.set_name(absl::StrCat("w", i));
      workload.set_program(print(*task->program()));
      workload.set_source_words(task->workload().source_words);
    }
    spec.set_threads(1);
    spec.set_trials(count * static_cast<int>(8 + rng.below(9)));
    spec.set_batch(static_cast<int>(1 + rng.below(4)));
    spec.set_seed(1 + static_cast<uint64_t>(rng.below(1000)));
    spec.set_priority(static_cast<int>(rng.below(3)));
    google::longrunning::Operation operation;
    Context context;
    limit(&context, 5000);
    if (!answered(tuning_->CreateStudy(&context, request, &operation), "CreateStudy")) return false;
    *answer = absl::StrCat("studies/", operation.name().substr(operation.name().find('/') + 1));
    return true;
  }

  bool cancel(const std::string& id, const std::string& study, std::string* answer) {
    loopwright::v1::CancelStudyRequest request;
    request.set_request_id(id);
    request.set_name(study);
    loopwright::v1::Study response;
    Context context;
    limit(&context, 5000);
    if (!answered(tuning_->CancelStudy(&context, request, &response), "CancelStudy")) return false;
    *answer = loopwright::v1::StudyState_Name(response.progress().state());
    return true;
  }

  // A record of its own, told from others by its environment.
  bool put(const std::string& id, std::string* answer) {
    const absl::StatusOr<Task> task = task_of(242);
    CHECK(task.ok());
    static const std::string trace =
        Search(task->start(), SearchOptions(), make_draft_model()).zero_trial()->text;
    loopwright::v1::PutRecordsRequest request;
    request.set_request_id(id);
    loopwright::v1::Record& record = *request.add_records();
    *record.mutable_key() = to_proto(task->key());
    *record.mutable_workload() = to_proto(task->workload());
    *record.mutable_target() = to_proto(*task->target());
    Measurement m;
    m.trace = trace;
    m.verdict = Verdict::kOk;
    m.samples_us = {50, 50, 50};
    m.inner = 1;
    m.time_us = m.ci_low_us = m.ci_high_us = 50;
    m.verified = true;
    m.source = "put";
    m.environment = absl::StrCat("{\"put\":\"", id, "\"}");
    m.unix_ms = 1'700'000'000'000;
    *record.mutable_measurement() = to_proto(m);
    loopwright::v1::PutRecordsResponse response;
    Context context;
    limit(&context, 5000);
    if (!answered(schedules_->PutRecords(&context, request, &response), "PutRecords")) return false;
    *answer = absl::StrCat(response.stored());
    return true;
  }

  static absl::StatusOr<Task> task_of(int64_t m, int64_t n = 16, int64_t k = 16) {
    return make_client_task(absl::StrCat("matmul M=", m, " N=", n, " K=", k),
                            {.target = "x86_avx2", .threads = 1});
  }
  // So many that most are new to the database: a workload that is known ends without a trial.
  static absl::StatusOr<Task> random_task(Rng& rng) {
    const int64_t m = 4 * (1 + rng.below(60)), n = 8 * (1 + rng.below(8));
    return task_of(m, n, 4 * (1 + rng.below(8)));
  }

  bool get(const std::string& name, loopwright::v1::Study* study) {
    loopwright::v1::GetStudyRequest request;
    request.set_name(name);
    Context context;
    limit(&context, 2000);
    return answered(tuning_->GetStudy(&context, request, study), absl::StrCat("GetStudy ", name));
  }

  void look_up() {
    loopwright::v1::BatchLookupRequest request;
    const absl::StatusOr<Task> task = task_of(rng_.below(2) == 0 ? 242 : 16);
    loopwright::v1::LookupQuery& query = *request.add_queries();
    query.set_program(print(*task->program()));
    query.set_target_name("x86_avx2");
    loopwright::v1::BatchLookupResponse response;
    Context context;
    limit(&context, 2000);
    if (answered(schedules_->BatchLookup(&context, request, &response), "BatchLookup") &&
        response.results_size() != 1) {
      write("wrong BatchLookup: not one answer for one query");
    }
  }

  // A moment of a study's events, from where an earlier watch ended.
  void watch(const std::string& name) {
    loopwright::v1::WatchStudyRequest request;
    request.set_name(name);
    request.set_after_sequence(seen_[name]);
    request.set_knows_waiting(true);       // to others they come as events of no kind
    Context context;
    limit(&context, 50 + rng_.below(250));
    const auto stream = tuning_->WatchStudy(&context, request);
    for (loopwright::v1::StudyEvent event; stream->Read(&event);) {
      if (event.kind() == loopwright::v1::StudyEvent::KIND_HEARTBEAT) continue;
      int64_t& seen = seen_[name];
      if (event.sequence() != seen + 1) {
        write(absl::StrCat("wrong event ", event.sequence(), " after ", seen, " of ", name));
      }
      seen = event.sequence();
      write(absl::StrCat("saw ", name, " ", seen, " ", event_digest(event)));
    }
    answered(stream->Finish(), absl::StrCat("WatchStudy ", name));
  }

  // Something new, as long as not too much is under way.
  void act() {
    refresh();
    const int64_t dice = rng_.below(10);
    std::vector<std::string> open;
    for (const auto& [id, name] : studies_) {
      if (!ended_.contains(name)) open.push_back(name);
    }
    if (dice < 3 && open.size() < 5) return want("study");
    if (dice < 5) return want("put");
    if (dice < 6) return look_up();
    if (open.empty()) return;
    const std::string name =
        open[static_cast<size_t>(rng_.below(static_cast<int64_t>(open.size())))];
    if (dice < 7 && rng_.below(4) == 0) return want("cancel", name);
    watch(name);
  }

  // Which studies have ended.
  void refresh() {
    for (const auto& [id, name] : studies_) {
      loopwright::v1::Study study;
      if (ended_.contains(name) || !get(name, &study)) continue;
      if (study.end_time().seconds() != 0) ended_.insert(name);
    }
  }

 public:
  static std::string event_digest(const loopwright::v1::StudyEvent& event) {
    return sha256(event.SerializeAsString());
  }

 private:
  const int workloads_, journal_;
  const std::function<bool()>* finish_ = nullptr;
  Rng rng_{0};
  std::unique_ptr<loopwright::v1::TuningService::Stub> tuning_;
  std::unique_ptr<loopwright::v1::ScheduleService::Stub> schedules_;
  std::map<std::string, JournalLine> wants_;      // by request id: without an answer
  std::map<std::string, std::string> studies_;    // by request id
  std::map<std::string, int64_t> seen_;           // by study: the last event
  std::set<std::string> ended_;
};

// Clients are processes of the test's own program, which go on until SIGTERM asks them to finish.
inline volatile sig_atomic_t asked_to_finish = 0;
constexpr char kClientReady[] = "may be asked to finish";
inline void finish_when_asked() {
  signal(SIGTERM, [](int) { asked_to_finish = 1; });
  std::puts(kClientReady);
  std::fflush(stdout);
}

// --rounds=N; without, the test's own short form.
inline int rounds_or(int short_form) {
  const std::optional<std::string> words = test_option("rounds");
  return words.has_value() ? std::stoi(*words) : short_form;
}
inline uint64_t seed() { return std::stoull(test_option("seed").value_or("20261121")); }

inline Words client_words(const std::string& address, const std::string& journal, int workloads) {
  return {own_program(), "client", "--server=" + address, "--journal=" + journal,
          "--seed=" + std::to_string(seed()),
          "--workloads=" + std::to_string(workloads)};
}

inline int client_main(int, char**) {
  finish_when_asked();
  KillableClient(*test_option("server"), *test_option("journal"), seed(),
                 std::stoi(*test_option("workloads"))).run([] { return asked_to_finish != 0; });
  return 0;
}
inline const EntryPoint kClientEntry("client", client_main);

// The client's exit code: 0 when all its studies ended, -1 when they are stuck: when for a minute
// nobody wrote into a log, as agents do of every job. (How long all of it takes is a matter of how
// slow this build and this machine are.) SIGTERM would end a client that was only just started.
inline int finish_client(Processes& processes) {
  if (!processes.await_words("client", kClientReady)) return -1;
  processes.signal("client", SIGTERM);
  for (uintmax_t said = 0, before = 0; (said = processes.said()) > before; before = said) {
    if (await(60, [&] { return processes.has_ended("client"); })) break;
  }
  return processes.wait("client", 0);
}

// The database's own check, with its daemon dead or stopped.
inline void check_database(Processes& processes, const std::string& url) {
  processes.start("check", {LW_BINARY_DIR "/loopwright", "db", "check", "--db", url});
  ASSERT_EQ(processes.wait("check", 60), 0) << read_text(processes.path("check.out"))
                                            << read_text(processes.log("check"));
}

inline std::string temporary_folder() {
  std::string pattern = testing::TempDir() + "lw_kills_XXXXXX";
  CHECK(mkdtemp(pattern.data()) != nullptr);
  return pattern;
}

// With a folder of its own, which stays where the test has failed.
class FolderTest : public testing::Test {
 protected:
  ~FolderTest() override {
    if (HasFailure()) {
      std::printf("what is left: %s\n", folder_.c_str());
    } else {
      std::filesystem::remove_all(folder_);
    }
  }

  const std::string folder_ = temporary_folder();
};

}  // namespace lw
