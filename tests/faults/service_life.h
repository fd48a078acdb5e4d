// The life of a service as a script, for tests of what may happen in the middle of it.
#pragma once

#include <fcntl.h>

#include <fstream>

#include "schedules/targets/target.h"
#include "tests/support/fault_fixture.h"

namespace lw {

inline constexpr int kLifeTrials = 8;      // of its study

// What the script was told, appended as it comes; survives the process.
class Acknowledged {
 public:
  explicit Acknowledged(const std::string& path)
      : file_(open(path.c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600)) {}
  ~Acknowledged() { close(file_); }
  void note(const std::string& line) {
    const std::string text = line + "\n";
    CHECK(write(file_, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }

 private:
  const int file_;
};

// Records put, a study measured by an agent with two devices, one drained, resumed, quarantined and
// resumed, a second study cancelled. In `folder` stands what was acknowledged; a second life there
// with the same request ids goes on where the first one died.
class Life {
 public:
  // `resumes`: as the agent's session that was, rather than a new one.
  Life(const std::string& url, const std::string& folder, bool resumes)
      : acknowledged_(folder + "/acknowledged"),
        unsent_(folder + "/unsent"),
        last_(last_request(unsent_)),
        session_(resumes && !last_.session().empty() ? last_.session()
                                                     : absl::StrCat("session ", getpid())),
        database_(*open_database(url)), store_(make_store(database_)),
        service_(*Service::start(database_, quick_service())),
        agent_("a1", session_, {"d1", "d2"}) {
    // The same agent, whose server died: it knows its session and what it owes.
    if (last_.session() != session_) return;
    for (const v1::JobResult& result : last_.results()) agent_.owe(result);
    agent_.set_sequence(last_.sequence());
  }

  void run() {
    put_records();
    const std::string study = create("study", small_study(kLifeTrials));
    call();                                  // descriptions
    measure(study, 2);
    devices("drain");
    devices("resume");
    measure(study, 4);
    devices("quarantine");
    call();
    devices("reopen");
    measure(study, 1000);
    const std::string other = create("other", small_study(kLifeTrials, "x86_avx512"));
    cancel(other);
    service_.reset();
  }

 private:
  template <class Response>
  void must(const absl::Status& status, const Response& response, const std::string& what) {
    if (!status.ok()) std::fprintf(stderr, "%s: %s\n", what.c_str(), status.ToString().c_str());
    CHECK(status.ok());
    acknowledged_.note(what);
  }

  void put_records() {
    v1::PutRecordsRequest request;
    request.set_request_id("put");
    const WorkloadRow workload = make_workload(128);
    const Target target = make_target();
    for (int i = 0; i < 3; ++i) {
      v1::Record& record = *request.add_records();
      *record.mutable_key() = to_proto(make_key(workload, target));
      *record.mutable_measurement() = to_proto(make_measurement(i + 1, {10.0 + i, 11.0 + i}));
      *record.mutable_workload() = to_proto(workload);
      *record.mutable_target() = to_proto(target);
    }
    v1::PutRecordsResponse response;
    must(service_->schedules.put_records(local_caller(), request, &response), response, "put");
  }

  std::string create(const std::string& id, const v1::StudySpec& spec) {
    v1::CreateStudyRequest request;
    request.set_request_id(id);
    *request.mutable_spec() = spec;
    google::longrunning::Operation operation;
    const absl::Status status = service_->studies.create_study(local_caller(), request, &operation);
    const std::string name = operation.name().substr(operation.name().find('/') + 1);
    must(status, operation, concat("study ", name));
    return "studies/" + name;
  }

  void cancel(const std::string& study) {
    v1::CancelStudyRequest request;
    request.set_request_id("cancel");
    request.set_name(study);
    v1::Study response;
    must(service_->studies.cancel_study(local_caller(), request, &response), response,
         concat("cancelled ", study.substr(8)));
  }

  void devices(const std::string& what) {
    if (what == "quarantine") {
      v1::QuarantineDeviceRequest request;
      request.set_request_id(what);
      request.set_name("devices/d2");
      request.set_reason("the script says so");
      v1::DeviceStatus response;
      return must(service_->fleet.quarantine_device(local_caller(), request, &response), response,
                  what);
    }
    if (what == "drain") {
      v1::DrainDevicesRequest request;
      request.set_request_id(what);
      request.add_names("devices/d2");
      v1::DrainDevicesResponse response;
      return must(service_->fleet.drain_devices(local_caller(), request, &response), response,
                  what);
    }
    v1::ResumeDevicesRequest request;
    request.set_request_id(what);
    request.add_names("devices/d2");
    v1::ResumeDevicesResponse response;
    must(service_->fleet.resume_devices(local_caller(), request, &response), response, what);
  }

  // A call of the agent. What it owes is on its disk before it is sent.
  void call() {
    const v1::SynchronizeRequest request = agent_.request();
    {
      std::ofstream out(unsent_ + ".new", std::ios::binary | std::ios::trunc);
      out << request.SerializeAsString();
    }
    std::filesystem::rename(unsent_ + ".new", unsent_);
    const auto response = synchronize(*service_, request);
    if (!response.ok()) std::fprintf(stderr, "%s\n", response.status().ToString().c_str());
    CHECK(response.ok());
    for (const v1::Receipt& receipt : response->receipts()) {
      const bool stored = receipt.kind() == v1::RECEIPT_KIND_STORED ||
                          receipt.kind() == v1::RECEIPT_KIND_DUPLICATE;
      if (stored)
        acknowledged_.note(concat("stored ", receipt.job().substr(5), " ", receipt.epoch()));
    }
    agent_.apply(*response);
  }

  // Until the study has ended, or so many of its trials are stored.
  void measure(const std::string& name, int trials) {
    v1::GetStudyRequest request;
    request.set_name(name);
    for (int i = 0; i < kPatienceMs; ++i) {
      v1::Study study;
      CHECK(service_->studies.get_study(local_caller(), request, &study).ok());
      if (study.has_end_time() || study.progress().trials() >= trials) {
        if (study.has_end_time()) acknowledged_.note(concat("ended ", name.substr(8)));
        return;
      }
      agent_.work();
      call();
    }
    std::fprintf(stderr, "%s does not end\n", name.c_str());
    CHECK(false);
  }

  static v1::SynchronizeRequest last_request(const std::string& file) {
    v1::SynchronizeRequest last;
    std::ifstream in(file, std::ios::binary);
    if (in) CHECK(last.ParseFromIstream(&in));
    return last;
  }

  Acknowledged acknowledged_;
  const std::string unsent_;
  const v1::SynchronizeRequest last_;
  const std::string session_;
  const std::shared_ptr<Database> database_;
  const std::unique_ptr<Store> store_;
  std::unique_ptr<Service> service_;
  FleetAgent agent_;
};

}  // namespace lw
