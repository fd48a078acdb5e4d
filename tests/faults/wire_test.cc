// Old peers and old bytes: what v1 ever put on the wire or into a file keeps its meaning.
//
// tests/data/wire/v1 holds every message of an RPC and of the stored formats with all fields set,
// as bytes and as the JSON that they meant when they were recorded; tests/data/descriptors_v1.pb
// the protos as they were released. Neither is ever written anew: LOOPWRIGHT_RECORD_WIRE=1 adds the
// recordings that are missing, for messages that are new.
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/dynamic_message.h>
#include <google/protobuf/util/json_util.h>

#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "loopwright/v1/errors.pb.h"
#include "loopwright/v1/fleet.pb.h"
#include "loopwright/v1/schedule.pb.h"
#include "loopwright/v1/study.pb.h"
#include "nlohmann/json.hpp"
#include "src/agent/job.h"
#include "src/agent/ledger.h"
#include "tests/support/fault_fixture.h"

namespace lw {
namespace {

namespace pb = google::protobuf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string kFolder = LW_SOURCE_DIR "/tests/data/wire/v1/";
const std::string kDescriptors = LW_SOURCE_DIR "/tests/data/descriptors_v1.pb";
const bool kRecord = getenv("LOOPWRIGHT_RECORD_WIRE") != nullptr;

std::vector<const pb::FileDescriptor*> own_files() {
  return {v1::Target::descriptor()->file(),         v1::Record::descriptor()->file(),
          v1::Study::descriptor()->file(),          v1::Job::descriptor()->file(),
          v1::LookupQuery::descriptor()->file(),    v1::Fleet::descriptor()->file(),
          v1::ErrorReason_descriptor()->file()};
}

// Messages that travel or are stored on their own.
std::vector<const pb::Descriptor*> roots() {
  std::map<std::string, const pb::Descriptor*> found = {
      {"Record", v1::Record::descriptor()}, {"Trace", v1::Trace::descriptor()},
      {"StudyEvent", v1::StudyEvent::descriptor()}, {"StudySpec", v1::StudySpec::descriptor()},
      {"StudyProgress", v1::StudyProgress::descriptor()}, {"Device", v1::Device::descriptor()},
      {"Job", v1::Job::descriptor()}, {"JobResult", v1::JobResult::descriptor()}};
  for (const pb::FileDescriptor* file : own_files()) {
    for (int s = 0; s < file->service_count(); ++s) {
      for (int m = 0; m < file->service(s)->method_count(); ++m) {
        const pb::MethodDescriptor* method = file->service(s)->method(m);
        for (const pb::Descriptor* type : {method->input_type(), method->output_type()}) {
          if (type->file()->package() == "loopwright.v1") found[type->name()] = type;
        }
      }
    }
  }
  std::vector<const pb::Descriptor*> all;
  for (const auto& [name, type] : found) all.push_back(type);
  return all;
}

// ---- all fields set -----------------------------------------------------------------------------

void fill(pb::Message* message, int* count);

void set_one(pb::Message* message, const pb::FieldDescriptor* field, int* count) {
  const pb::Reflection* reflection = message->GetReflection();
  const bool many = field->is_repeated();
  const int n = ++*count;
  switch (field->cpp_type()) {
#define LW_SET(TYPE, NAME, VALUE)                                     \
  case pb::FieldDescriptor::TYPE:                                     \
    many ? reflection->Add##NAME(message, field, VALUE)               \
         : reflection->Set##NAME(message, field, VALUE);              \
    break;
    LW_SET(CPPTYPE_INT32, Int32, n)
    LW_SET(CPPTYPE_INT64, Int64, (int64_t{1} << 33) + n)
    LW_SET(CPPTYPE_UINT32, UInt32, static_cast<uint32_t>(n))
    LW_SET(CPPTYPE_UINT64, UInt64, (uint64_t{1} << 63) + static_cast<uint64_t>(n))
    LW_SET(CPPTYPE_DOUBLE, Double, n + 0.25)
    LW_SET(CPPTYPE_FLOAT, Float, static_cast<float>(n) + 0.5f)
    LW_SET(CPPTYPE_BOOL, Bool, true)
    LW_SET(CPPTYPE_STRING, String, absl::StrCat(field->name(), " \xC3\xA9 ", n))
#undef LW_SET
    case pb::FieldDescriptor::CPPTYPE_ENUM: {
      const pb::EnumDescriptor* type = field->enum_type();
      const int value = type->value(type->value_count() - 1)->number();
      many ? reflection->AddEnumValue(message, field, value)
           : reflection->SetEnumValue(message, field, value);
      break;
    }
    case pb::FieldDescriptor::CPPTYPE_MESSAGE:
      fill(many ? reflection->AddMessage(message, field)
                : reflection->MutableMessage(message, field), count);
      break;
  }
}

void fill(pb::Message* message, int* count) {
  const pb::Descriptor* type = message->GetDescriptor();
  for (int i = 0; i < type->field_count(); ++i) {
    const pb::FieldDescriptor* field = type->field(i);
    set_one(message, field, count);
    if (field->is_repeated()) set_one(message, field, count);
  }
}

std::string bytes_of(const pb::Message& message) {
  std::string bytes;
  pb::io::StringOutputStream stream(&bytes);
  pb::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  message.SerializeToCodedStream(&coded);
  coded.Trim();
  return bytes;
}

std::string json_of(const pb::Message& message) {
  pb::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.preserve_proto_field_names = true;
  std::string json;
  EXPECT_TRUE(pb::util::MessageToJsonString(message, &json, options).ok());
  return json;
}

std::unique_ptr<pb::Message> make(const pb::Descriptor* type) {
  return std::unique_ptr<pb::Message>(
      pb::MessageFactory::generated_factory()->GetPrototype(type)->New());
}

TEST(Wire, RecordedMessagesKeepTheirMeaning) {
  int files = 0;
  for (const pb::Descriptor* type : roots()) {
    SCOPED_TRACE(type->name());
    const std::string path = kFolder + type->name();
    if (!std::filesystem::exists(path + ".bin") && kRecord) {
      const auto message = make(type);
      int count = 0;
      fill(message.get(), &count);
      spill(path + ".bin", bytes_of(*message));
      spill(path + ".json", json_of(*message));
    }
    ASSERT_TRUE(std::filesystem::exists(path + ".bin"))
        << "a new message: record it with LOOPWRIGHT_RECORD_WIRE=1 wire_test";
    const auto message = make(type);
    ASSERT_TRUE(message->ParseFromString(slurp(path + ".bin")));
    EXPECT_EQ(nlohmann::json::parse(json_of(*message)),    // maps are in no order
              nlohmann::json::parse(slurp(path + ".json")));
    EXPECT_EQ(bytes_of(*message), slurp(path + ".bin"));
    const auto read = make(type);
    EXPECT_TRUE(pb::util::JsonStringToMessage(slurp(path + ".json"), read.get()).ok());
    EXPECT_EQ(bytes_of(*read), slurp(path + ".bin"));
    ++files;
  }
  int recorded = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    recorded += entry.path().extension() == ".bin";
  }
  EXPECT_EQ(recorded, files) << "a message that was recorded is gone";
}

// ---- descriptors --------------------------------------------------------------------------------

template <class Items, class Same>
const typename Items::value_type* find(const Items& items, Same same) {
  for (const auto& item : items) {
    if (same(item)) return &item;
  }
  return nullptr;
}

void compare(const pb::EnumDescriptorProto& old, const pb::EnumDescriptorProto& now,
             const std::string& path, std::vector<std::string>* breaks) {
  for (const auto& value : old.value()) {
    const auto* found = find(now.value(), [&](auto& v) { return v.name() == value.name(); });
    if (found == nullptr || found->number() != value.number()) {
      breaks->push_back(concat(path, ".", value.name(), ": gone or renumbered"));
    }
  }
}

void compare(const pb::DescriptorProto& old, const pb::DescriptorProto& now,
             const std::string& path, std::vector<std::string>* breaks) {
  for (const auto& field : old.field()) {
    const auto* found = find(now.field(), [&](auto& f) { return f.number() == field.number(); });
    const bool same = found != nullptr && found->name() == field.name() &&
                      found->type() == field.type() && found->label() == field.label() &&
                      found->type_name() == field.type_name() &&
                      found->proto3_optional() == field.proto3_optional() &&
                      found->has_oneof_index() == field.has_oneof_index();
    if (!same) breaks->push_back(concat(path, ".", field.name(), ": gone or changed"));
  }
  for (const auto& nested : old.nested_type()) {
    const auto* found = find(now.nested_type(), [&](auto& n) { return n.name() == nested.name(); });
    if (found == nullptr) {
      breaks->push_back(concat(path, ".", nested.name(), ": gone"));
    } else {
      compare(nested, *found, concat(path, ".", nested.name()), breaks);
    }
  }
  for (const auto& type : old.enum_type()) {
    const auto* found = find(now.enum_type(), [&](auto& t) { return t.name() == type.name(); });
    if (found == nullptr) {
      breaks->push_back(concat(path, ".", type.name(), ": gone"));
    } else {
      compare(type, *found, concat(path, ".", type.name()), breaks);
    }
  }
}

void compare(const pb::FileDescriptorProto& old, const pb::FileDescriptorProto& now,
             std::vector<std::string>* breaks) {
  if (old.package() != now.package()) breaks->push_back(old.name() + ": another package");
  for (const auto& type : old.message_type()) {
    const auto* found = find(now.message_type(), [&](auto& t) { return t.name() == type.name(); });
    if (found == nullptr) {
      breaks->push_back(type.name() + ": gone");
    } else {
      compare(type, *found, type.name(), breaks);
    }
  }
  for (const auto& type : old.enum_type()) {
    const auto* found = find(now.enum_type(), [&](auto& t) { return t.name() == type.name(); });
    if (found == nullptr) {
      breaks->push_back(type.name() + ": gone");
    } else {
      compare(type, *found, type.name(), breaks);
    }
  }
  for (const auto& service : old.service()) {
    const auto* found = find(now.service(), [&](auto& s) { return s.name() == service.name(); });
    for (const auto& method : service.method()) {
      const auto* same = found == nullptr ? nullptr : find(found->method(), [&](auto& m) {
        return m.name() == method.name() && m.input_type() == method.input_type() &&
               m.output_type() == method.output_type() &&
               m.client_streaming() == method.client_streaming() &&
               m.server_streaming() == method.server_streaming();
      });
      if (same == nullptr) {
        breaks->push_back(concat(service.name(), ".", method.name(), ": gone or changed"));
      }
    }
  }
}

std::vector<std::string> breaks_between(const pb::FileDescriptorSet& old,
                                        const pb::FileDescriptorSet& now) {
  std::vector<std::string> breaks;
  for (const auto& file : old.file()) {
    const auto* found = find(now.file(), [&](auto& f) { return f.name() == file.name(); });
    if (found == nullptr) {
      breaks.push_back(file.name() + ": gone");
    } else {
      compare(file, *found, &breaks);
    }
  }
  return breaks;
}

pb::FileDescriptorSet present() {
  pb::FileDescriptorSet set;
  for (const pb::FileDescriptor* file : own_files()) file->CopyTo(set.add_file());
  return set;
}

pb::FileDescriptorSet released() {
  if (!std::filesystem::exists(kDescriptors) && kRecord) {
    spill(kDescriptors, bytes_of(present()));
  }
  pb::FileDescriptorSet set;
  EXPECT_TRUE(set.ParseFromString(slurp(kDescriptors)));
  EXPECT_EQ(set.file_size(), static_cast<int>(own_files().size()));
  return set;
}

TEST(Wire, ProtosOnlyGrow) { EXPECT_THAT(breaks_between(released(), present()), IsEmpty()); }

TEST(Wire, EveryBreakOfAProtoIsNoticed) {
  const pb::FileDescriptorSet base = present();
  using Change = std::function<void(pb::FileDescriptorProto*)>;
  const Change breaking[] = {
      [](auto* f) { f->set_package("loopwright.v2"); },
      [](auto* f) { f->mutable_message_type()->RemoveLast(); },
      [](auto* f) { f->mutable_message_type(0)->mutable_field()->RemoveLast(); },
      [](auto* f) { f->mutable_message_type(0)->mutable_field(0)->set_number(900); },
      [](auto* f) { f->mutable_message_type(0)->mutable_field(0)->set_name("another"); },
      [](auto* f) {
        f->mutable_message_type(0)->mutable_field(0)->set_type(
            pb::FieldDescriptorProto::TYPE_BYTES);
      },
      [](auto* f) {
        f->mutable_message_type(0)->mutable_field(0)->set_label(
            pb::FieldDescriptorProto::LABEL_REPEATED);
      },
      [](auto* f) { f->mutable_enum_type()->RemoveLast(); },
      [](auto* f) { f->mutable_enum_type(0)->mutable_value()->RemoveLast(); },
      [](auto* f) { f->mutable_enum_type(0)->mutable_value(1)->set_number(77); },
      [](auto* f) { f->mutable_service(0)->mutable_method()->RemoveLast(); },
      [](auto* f) { f->mutable_service(0)->mutable_method(0)->set_server_streaming(true); },
      [](auto* f) { f->mutable_service(0)->mutable_method(0)->set_input_type(".x.Y"); }};
  for (size_t i = 0; i < std::size(breaking); ++i) {
    pb::FileDescriptorSet changed = base;
    for (auto& file : *changed.mutable_file()) {
      if (file.name() == v1::Job::descriptor()->file()->name()) breaking[i](&file);
    }
    EXPECT_FALSE(breaks_between(base, changed).empty()) << i;
  }
  pb::FileDescriptorSet grown = base;
  for (auto& file : *grown.mutable_file()) {
    if (file.service_size() == 0 || file.message_type_size() == 0) continue;
    auto* field = file.mutable_message_type(0)->add_field();
    field->set_name("more");
    field->set_number(901);
    file.add_message_type()->set_name("More");
    file.mutable_service(0)->add_method()->set_name("DoMore");
  }
  EXPECT_THAT(breaks_between(base, grown), IsEmpty());
}

// ---- newer peers --------------------------------------------------------------------------------

// What a later version might add: a field of each wire type in every message.
void add_unknown(pb::Message* message) {
  const pb::Reflection* reflection = message->GetReflection();
  pb::UnknownFieldSet* unknown = reflection->MutableUnknownFields(message);
  unknown->AddVarint(5000, 42);
  unknown->AddFixed64(5001, 42);
  unknown->AddLengthDelimited(5002, "later");
  unknown->AddFixed32(5003, 42);
  unknown->AddGroup(5004)->AddVarint(1, 1);
  std::vector<const pb::FieldDescriptor*> fields;
  reflection->ListFields(*message, &fields);
  for (const pb::FieldDescriptor* field : fields) {
    if (field->cpp_type() != pb::FieldDescriptor::CPPTYPE_MESSAGE || field->is_map()) continue;
    if (!field->is_repeated()) {
      add_unknown(reflection->MutableMessage(message, field));
      continue;
    }
    for (int i = 0; i < reflection->FieldSize(*message, field); ++i) {
      add_unknown(reflection->MutableRepeatedMessage(message, field, i));
    }
  }
}

template <class Message>
Message newer(Message message) {
  add_unknown(&message);
  Message read;
  EXPECT_TRUE(read.ParseFromString(message.SerializeAsString()));
  return read;
}

TEST(NewerPeers, AnAgentWithMoreFieldsAndStatesIsServed) {
  Scratch scratch;
  const auto database = *open_sqlite(scratch.file, {});
  {
    const auto service = *Service::start(database, quick_service());
    v1::CreateStudyRequest create;
    create.set_request_id("1");
    *create.mutable_spec() = small_study(4);
    google::longrunning::Operation operation;
    ASSERT_TRUE(service->studies.create_study(local_caller(), newer(create), &operation).ok());
    FleetAgent agent("a1", "s1", {"d1"});
    v1::GetStudyRequest get;
    get.set_name("studies/" + operation.name().substr(11));
    v1::Study study;
    for (int i = 0; i < 2000 && !study.has_end_time(); ++i) {
      v1::SynchronizeRequest request = agent.request();
      for (v1::DeviceState& device : *request.mutable_devices()) {
        device.set_health(static_cast<v1::DeviceHealth>(99));
        for (v1::HeldJob& held : *device.mutable_held()) {
          held.set_phase(static_cast<v1::JobPhase>(99));
        }
      }
      request = newer(request);
      for (v1::JobResult& result : *request.mutable_results()) {
        result.set_digest(result_digest(result));          // new fields of outcomes are digested
                                                           // too
      }
      const auto response = synchronize(*service, request);
      ASSERT_TRUE(response.ok()) << response.status();
      agent.apply(newer(*response));
      agent.work();
      ASSERT_TRUE(service->studies.get_study(local_caller(), get, &study).ok());
    }
    EXPECT_EQ(study.progress().state(), v1::STUDY_STATE_SUCCEEDED);
    EXPECT_EQ(study.progress().trials(), 4);
    v1::ListDevicesResponse devices;
    EXPECT_TRUE(service->fleet.list_devices(local_caller(), {}, &devices).ok());
    EXPECT_EQ(devices.devices_size(), 1);
  }
  EXPECT_THAT(defects_of(*database, *make_store(database)), IsEmpty());
}

// A job that failed for a reason that this server does not know is nobody's result.
TEST(NewerPeers, AResultOfAnUnknownKindGoesBackToTheQueue) {
  Scratch scratch;
  const auto database = *open_sqlite(scratch.file, {});
  const auto service = *Service::start(database, quick_service());
  make_study(*service, 4);
  FleetAgent agent("a1", "s1", {"d1"});
  for (int i = 0; i < 2000 && agent.held().empty(); ++i) {
    agent.apply(*synchronize(*service, agent.request()));
  }
  ASSERT_FALSE(agent.held().empty());
  const v1::Job job = agent.held().front();
  v1::SynchronizeRequest request = agent.request(0, 0);
  v1::JobResult failed;
  failed.set_job(job.name());
  failed.set_epoch(job.epoch());
  failed.set_failure(static_cast<v1::Verdict>(99));
  *request.add_results() = failed;
  const auto response = synchronize(*service, request);
  ASSERT_TRUE(response.ok()) << response.status();
  ASSERT_EQ(response->receipts_size(), 1);
  EXPECT_EQ(response->receipts(0).kind(), v1::RECEIPT_KIND_REFUSED);
  v1::JobResult strange = measured(job);
  strange.mutable_outcomes(0)->mutable_measurement()->set_verdict(static_cast<v1::Verdict>(99));
  strange.set_digest(result_digest(strange));
  EXPECT_FALSE(from_proto(strange.outcomes(0).measurement()).ok());
  EXPECT_THAT(column(*database, concat("SELECT state FROM jobs WHERE id = ", job.name().substr(5))),
              testing::ElementsAre(testing::AnyOf("queued", "leased")));
}

TEST(NewerPeers, AnAgentTakesAnswersWithMoreFieldsAndKinds) {
  DeviceBook book;
  book.spec = *parse_device("null:d1,target=x86_avx2");
  ASSERT_TRUE(describe_target(*find_target("x86_avx2"), &book.description).ok());
  book.spec.name = "d1";
  LedgerOptions options;
  options.agent = "agents/a1";
  options.session = "s1";
  Ledger ledger(options, {book});
  ledger.request(0, false);
  v1::SynchronizeResponse response;
  v1::Job& job = *response.add_jobs();
  job.set_name("jobs/1");
  job.set_epoch(1);
  job.set_device("devices/d1");
  job.set_kind(static_cast<v1::JobKind>(99));
  job.set_threads(1);
  job.set_cache("warm");
  job.add_candidates();
  v1::Receipt& receipt = *response.add_receipts();
  receipt.set_job("jobs/7");
  receipt.set_kind(static_cast<v1::ReceiptKind>(99));
  EXPECT_TRUE(ledger.apply(newer(response), 0));
  ASSERT_TRUE(ledger.holds_jobs());
  const std::shared_ptr<HeldJob> held = ledger.next_job(0);
  ASSERT_NE(held, nullptr);
  EXPECT_THAT(std::string(check_job(held->job).message()), HasSubstr("kind"));
  // Its result: a receipt of a kind that the agent does not know settles it.
  ASSERT_TRUE(ledger.finish(0, *held, failed_job(held->job, v1::VERDICT_WORKER_LOST, "unknown")));
  ASSERT_EQ(ledger.request(0, false).results_size(), 1);
  v1::SynchronizeResponse settled;
  v1::Receipt& unknown = *settled.add_receipts();
  unknown.set_job("jobs/1");
  unknown.set_epoch(1);
  unknown.set_kind(static_cast<v1::ReceiptKind>(99));
  ledger.apply(settled, 0);
  EXPECT_EQ(ledger.results(), 0u);
}

}  // namespace
}  // namespace lw
