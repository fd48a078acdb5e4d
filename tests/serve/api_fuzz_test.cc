// Every field of every request, set by reflection to values that nobody should send. Whatever
// comes, the answer is one that the API promises: never UNKNOWN or INTERNAL, an error always with a
// reason, and one that blames the request always with the field.
#include "schedules/targets/target.h"
#include "tests/support/daemon_fixture.h"

#include <cfloat>
#include <climits>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/dynamic_message.h"
#include "google/protobuf/reflection.h"
#include "src/base/fields/utf8.h"
#include "src/net/words.h"
#include "tuner_db/messages/messages.h"

namespace lw {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

struct Method {
  std::string path;
  std::unique_ptr<Message> request;        // a good one
};

// Calls `use` for each way to spoil a field of `message`, which is spoiled meanwhile.
class Spoiler {
 public:
  Spoiler(Message& root, std::function<void(const std::string&)> use)
      : root_(root), use_(std::move(use)) {}
  void run() { spoil(root_, root_.GetDescriptor()->name(), 0); }

 private:
  void spoil(Message& message, const std::string& where, int depth) {
    const Descriptor* descriptor = message.GetDescriptor();
    const Reflection* reflection = message.GetReflection();
    for (int i = 0; i < descriptor->field_count(); ++i) {
      const FieldDescriptor* field = descriptor->field(i);
      const std::string path = where + "." + field->name();
      const std::unique_ptr<Message> before(message.New());
      before->CopyFrom(message);
      const auto with = [&](auto set) {
        set();
        use_(path);
        message.CopyFrom(*before);
      };
      with([&] { reflection->ClearField(&message, field); });
      if (field->is_repeated()) {
        for (int count : {1, 3, 1200}) with([&] { add(message, reflection, field, count); });
      } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        with([&] { reflection->MutableMessage(&message, field); });
      } else {
        spoil_value(message, reflection, field, with);
      }
      const bool deeper = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && depth < 5;
      if (deeper && !field->is_map()) {
        if (!field->is_repeated()) {
          spoil(*reflection->MutableMessage(&message, field), path, depth + 1);
        } else if (reflection->FieldSize(message, field) > 0) {
          spoil(*reflection->MutableRepeatedMessage(&message, field, 0), path, depth + 1);
        }
        message.CopyFrom(*before);
      }
    }
  }

  static void add(Message& message, const Reflection* reflection, const FieldDescriptor* field,
                  int count) {
    for (int i = 0; i < count; ++i) {
      switch (field->cpp_type()) {
        case FieldDescriptor::CPPTYPE_MESSAGE: {
          Message* added = reflection->AddMessage(&message, field);
          if (!field->is_map()) break;
          const FieldDescriptor* key = added->GetDescriptor()->map_key();
          added->GetReflection()->SetString(added, key, i == 0 ? "" : std::string(300, 'k') +
                                                                          absl::StrCat(i));
          break;
        }
        case FieldDescriptor::CPPTYPE_STRING:
          reflection->AddString(&message, field, "../../etc/passwd");
          break;
        case FieldDescriptor::CPPTYPE_INT64:
          reflection->AddInt64(&message, field, i % 2 == 0 ? INT64_MIN : INT64_MAX);
          break;
        case FieldDescriptor::CPPTYPE_DOUBLE:
          reflection->AddDouble(&message, field, i % 2 == 0 ? NAN : -HUGE_VAL);
          break;
        default:
          break;
      }
    }
  }

  template <class With>
  static void spoil_value(Message& m, const Reflection* r, const FieldDescriptor* f, With with) {
    switch (f->cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        for (int v : {-1, 1, 65, INT_MIN, INT_MAX}) with([&] { r->SetInt32(&m, f, v); });
        break;
      case FieldDescriptor::CPPTYPE_INT64:
        for (int64_t v : {int64_t{-1}, int64_t{1}, INT64_MIN, INT64_MAX}) {
          with([&] { r->SetInt64(&m, f, v); });
        }
        break;
      case FieldDescriptor::CPPTYPE_UINT64:
        for (uint64_t v : {uint64_t{1}, UINT64_MAX}) with([&] { r->SetUInt64(&m, f, v); });
        break;
      case FieldDescriptor::CPPTYPE_DOUBLE:
        for (double v : {-1.0, 0.0, 1e-300, DBL_MAX, HUGE_VAL, -HUGE_VAL, double{NAN}}) {
          with([&] { r->SetDouble(&m, f, v); });
        }
        break;
      case FieldDescriptor::CPPTYPE_BOOL:
        with([&] { r->SetBool(&m, f, !r->GetBool(m, f)); });
        break;
      case FieldDescriptor::CPPTYPE_ENUM:
        for (int v : {-1, 0, 1, 5, 77, INT_MIN, INT_MAX}) with([&] { r->SetEnumValue(&m, f, v); });
        break;
      case FieldDescriptor::CPPTYPE_STRING:
        for (const std::string& v :
             {std::string("x"), std::string(12'000, 'a'), std::string("'; DROP TABLE jobs; --"),
              std::string("a\0b", 3), std::string("\xc3\xa9\xe2\x82\xac"),
              std::string("%s%n\n\r\t"), std::string("\xff\xfe bytes"), std::string(3000, '(')}) {
          with([&] { r->SetString(&m, f, v); });
        }
        break;
      default:
        break;
    }
  }

  Message& root_;
  std::function<void(const std::string&)> use_;
};

class ApiFuzzTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (url_.empty()) GTEST_SKIP() << "PostgreSQL is not installed";
    ServiceOptions options;
    options.search = false;
    options.config.quotas.active_studies_per_client = 1'000'000;
    daemon_ = std::make_unique<Daemon>(url_, options);
    prepare();
  }

  // What the good requests are about.
  void prepare() {
    const v1::CreateStudyRequest study = study_request();
    google::longrunning::Operation operation;
    ASSERT_TRUE(
        Daemon::call(*daemon_->tuning, &v1::TuningService::Stub::CreateStudy, study, &operation)
            .ok());
    study_ = operation.name().substr(operation.name().find('/') + 1);
    v1::SynchronizeResponse response;
    ASSERT_TRUE(Daemon::call(*daemon_->agents, &v1::AgentService::Stub::Synchronize, agent_call(),
                             &response).ok());
    ASSERT_TRUE(daemon_->database->write(5, [&](WriteTransaction& tx) {
      return tx.query(
          "INSERT INTO jobs (study, position, client, target, state, priority, run_after, "
          "attempt, epoch, device, agent, session, lease_until, created_ms, ended_ms, "
          "candidates, payload, sources, lost_on, digest, detail) VALUES "
          "(?,0,'local','t','leased',0,0,1,1,'d','a','s1',?,0,0,0,?,'','','','')",
          study_, INT64_MAX, Blob{""}).run();
    }).ok());
  }

  static v1::SynchronizeRequest agent_call() {
    v1::SynchronizeRequest request;
    request.set_agent("agents/a");
    request.set_session("s1");
    request.set_sequence(1);
    v1::DeviceState& state = *request.add_devices();
    state.set_name("devices/d");
    state.add_held()->set_job("jobs/1");
    const Target target = *find_target("x86_avx2");
    *state.mutable_description()->mutable_target() = to_proto(target);
    state.mutable_description()->set_target_id(sha256(to_text(target)));
    state.mutable_description()->set_backend("llvm");
    state.mutable_description()->mutable_words()->Assign(known_words().begin(),
                                                         known_words().end());
    v1::JobResult& result = *request.add_results();
    result.set_job("jobs/1");
    result.set_epoch(1);
    *result.add_outcomes()->mutable_measurement() = to_proto(make_measurement(1, {10, 11}));
    return request;
  }

  std::vector<Method> methods() {
    std::vector<Method> all;
    const auto add = [&](const std::string& path, const Message& request) {
      all.push_back({path, std::unique_ptr<Message>(request.New())});
      all.back().request->CopyFrom(request);
    };
    const std::string tuning = "/loopwright.v1.TuningService/", id = fresh_id();
    add(tuning + "GetCapabilities", v1::GetCapabilitiesRequest());
    v1::CreateStudyRequest study = study_request();
    study.mutable_spec()->set_target("any");
    study.mutable_spec()->mutable_time_budget()->set_seconds(10);
    add(tuning + "CreateStudy", study);
    v1::GetStudyRequest get;
    get.set_name("studies/" + study_);
    add(tuning + "GetStudy", get);
    v1::ListStudiesRequest list;
    list.set_filter("state = QUEUED");
    list.set_page_size(3);
    add(tuning + "ListStudies", list);
    v1::CancelStudyRequest cancel;
    cancel.set_request_id(id);
    cancel.set_name("studies/none");
    add(tuning + "CancelStudy", cancel);
    add("/loopwright.v1.AgentService/Synchronize", agent_call());
    const std::string schedules = "/loopwright.v1.ScheduleService/";
    v1::BatchLookupRequest lookup;
    v1::LookupQuery& query = *lookup.add_queries();
    query.set_program(kMatmul);
    *query.mutable_target() = to_proto(*find_target("x86_avx2"));
    lookup.set_worst(v1::LOOKUP_OUTCOME_DEFAULT);
    add(schedules + "BatchLookup", lookup);
    lookup.mutable_queries(0)->clear_target();
    lookup.mutable_queries(0)->clear_program();
    lookup.mutable_queries(0)->set_workload_id(make_workload(64).id);
    lookup.mutable_queries(0)->set_target_name("x86_avx2");
    lookup.mutable_queries(0)->set_family(make_workload(64).structure);
    for (int extent : {64, 64, 64}) lookup.mutable_queries(0)->add_shape(extent);
    add(schedules + "BatchLookup", lookup);
    v1::PutRecordsRequest put;
    put.set_request_id(id);
    v1::Record& record = *put.add_records();
    *record.mutable_key() = to_proto(make_key(make_workload(64), make_target()));
    *record.mutable_measurement() = to_proto(make_measurement(1, {10, 11}));
    *record.mutable_workload() = to_proto(make_workload(64));
    *record.mutable_target() = to_proto(make_target());
    add(schedules + "PutRecords", put);
    v1::ListHistoryRequest history;
    *history.mutable_key() = record.key();
    add(schedules + "ListHistory", history);
    v1::ListSchedulesRequest listed;
    listed.set_search("mat");
    add(schedules + "ListSchedules", listed);
    const std::string fleet = "/loopwright.v1.FleetService/";
    add(fleet + "ListDevices", v1::ListDevicesRequest());
    add(fleet + "ListAgents", v1::ListAgentsRequest());
    v1::DrainDevicesRequest drain;
    drain.set_request_id(id);
    drain.add_names("devices/d");
    add(fleet + "DrainDevices", drain);
    v1::ResumeDevicesRequest resume;
    resume.set_request_id(id);
    resume.add_names("devices/d");
    add(fleet + "ResumeDevices", resume);
    v1::QuarantineDeviceRequest quarantine;
    quarantine.set_request_id(id);
    quarantine.set_name("devices/d");
    quarantine.set_reason("smoke");
    add(fleet + "QuarantineDevice", quarantine);
    v1::ListJobsRequest jobs;
    jobs.set_filter("state = DEAD");
    add(fleet + "ListJobs", jobs);
    v1::RequeueJobRequest requeue;
    requeue.set_request_id(id);
    requeue.set_name("jobs/1");
    add(fleet + "RequeueJob", requeue);
    add(fleet + "GetFleet", v1::GetFleetRequest());
    add(fleet + "ListAudit", v1::ListAuditRequest());
    const std::string operations = "/google.longrunning.Operations/";
    google::longrunning::GetOperationRequest operation;
    operation.set_name("operations/" + study_);
    add(operations + "GetOperation", operation);
    add(operations + "ListOperations", google::longrunning::ListOperationsRequest());
    google::longrunning::CancelOperationRequest cancelled;
    cancelled.set_name("operations/none");
    add(operations + "CancelOperation", cancelled);
    google::longrunning::DeleteOperationRequest deleted;
    deleted.set_name("operations/none");
    add(operations + "DeleteOperation", deleted);
    google::longrunning::WaitOperationRequest wait;
    wait.set_name("operations/" + study_);
    wait.mutable_timeout()->set_nanos(1000);
    add(operations + "WaitOperation", wait);
    return all;
  }

  void check(const std::string& what, const grpc::Status& reply) {
    ++calls_;
    ++codes_[reply.error_code()];
    const absl::Status status = from_grpc(reply);
    switch (status.code()) {
      case absl::StatusCode::kOk:
      case absl::StatusCode::kDeadlineExceeded:  // it waits as it was told to
        return;
      case absl::StatusCode::kUnimplemented:     // gRPC's answer to bytes that are no UTF-8
        EXPECT_EQ(what.substr(0, 5), "utf8 ") << what;
        return;
      case absl::StatusCode::kInvalidArgument:
        EXPECT_NE(bad_field_of(status), "") << what << ": " << status;
        break;
      case absl::StatusCode::kNotFound:
      case absl::StatusCode::kAborted:
      case absl::StatusCode::kFailedPrecondition:
      case absl::StatusCode::kResourceExhausted:
      case absl::StatusCode::kPermissionDenied:
        break;
      default:
        ADD_FAILURE() << what << ": " << status;
    }
    EXPECT_NE(reason_of(status), v1::ERROR_REASON_UNSPECIFIED) << what << ": " << status;
  }

  Scratch scratch_;
  const std::string url_ = database_url(GetParam(), scratch_.file);
  std::unique_ptr<Daemon> daemon_;
  std::string study_;
  int calls_ = 0;
  std::map<int, int> codes_;
};

INSTANTIATE_TEST_SUITE_P(Databases, ApiFuzzTest, ::testing::Values("sqlite", "postgres"),
                         [](const auto& info) { return std::string(info.param); });

bool is_utf8(const std::string& bytes) { return as_utf8(bytes) == bytes; }

// Whether any string of the message is no UTF-8.
bool has_wild_bytes(const Message& message) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const Reflection* reflection = message.GetReflection();
    const int size = field->is_repeated() ? reflection->FieldSize(message, field) : 1;
    for (int i = 0; i < size; ++i) {
      if (field->type() == FieldDescriptor::TYPE_STRING) {
        const std::string text = field->is_repeated()
                                     ? reflection->GetRepeatedString(message, field, i)
                                     : reflection->GetString(message, field);
        if (!is_utf8(text)) return true;
      } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        if (has_wild_bytes(field->is_repeated() ? reflection->GetRepeatedMessage(message, field, i)
                                                : reflection->GetMessage(message, field))) {
          return true;
        }
      }
    }
  }
  return false;
}

TEST_P(ApiFuzzTest, NoFieldOfAnyRequestIsAnInternalError) {
  google::protobuf::LogSilencer silent;    // protobuf's complaints about our bytes
  // The handlers are the same over either database, most of the time is not theirs.
  const int64_t share = setting("LW_SPOILED", 1);  // one in so many
  const int64_t stride = share * (std::string(GetParam()) == "postgres" ? 3 : 1);
  int64_t nth = 0;
  for (Method& method : methods()) {
    const FieldDescriptor* id = method.request->GetDescriptor()->FindFieldByName("request_id");
    Spoiler spoiler(*method.request, [&](const std::string& where) {
      if (nth++ % stride != 0) return;
      std::unique_ptr<Message> sent(method.request->New());
      sent->CopyFrom(*method.request);
      if (id != nullptr && where.find("request_id") == std::string::npos) {
        sent->GetReflection()->SetString(sent.get(), id, fresh_id());
      }
      // Each call as an agent anew, or the first other session would end what follows.
      const FieldDescriptor* session = sent->GetDescriptor()->FindFieldByName("session");
      if (session != nullptr && where.find(".session") == std::string::npos) {
        sent->GetReflection()->SetString(sent.get(), session, fresh_id());
      }
      const std::string bytes = sent->SerializeAsString();
      std::string answer;
      const std::string what =
          absl::StrCat(has_wild_bytes(*sent) ? "utf8 " : "", method.path, " ", where, " = ",
                       sent->ShortDebugString().substr(0, 300));
      check(what, raw_call(daemon_->channel, method.path, bytes, &answer,
                           where.find("wait") != std::string::npos ||
                                   where.find("timeout") != std::string::npos ? 0.3 : 10));
    });
    spoiler.run();
  }
  std::printf("%d calls:", calls_);
  for (const auto& [code, count] : codes_) std::printf(" %d of code %d", count, code);
  std::printf("\n");
  EXPECT_GT(calls_, 1000 / stride);
  v1::Fleet fleet;
  EXPECT_TRUE(Daemon::call(*daemon_->fleet, &v1::FleetService::Stub::GetFleet,
                           v1::GetFleetRequest(), &fleet).ok());
  EXPECT_EQ(fleet.problem(), "");
}

// Bytes that are no message at all.
TEST_P(ApiFuzzTest, NoBytesAreAnInternalError) {
  Rng rng(5);
  for (Method& method : methods()) {
    const std::string good = method.request->SerializeAsString();
    for (int i = 0; i < 20; ++i) {
      std::string bytes = good;
      for (int k = 0; k < 3 && !bytes.empty(); ++k) {
        const size_t at = static_cast<size_t>(rng.uniform() * static_cast<double>(bytes.size()));
        bytes[at] = static_cast<char>(rng.below(256));
      }
      std::string answer;
      check("utf8 mutated " + method.path,
            raw_call(daemon_->channel, method.path, bytes, &answer, 0.5));
    }
  }
}

}  // namespace
}  // namespace lw
