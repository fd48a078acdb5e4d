// What is stored is described once: its description is its message's, and what a later version
// wrote is passed over or named.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <limits>
#include <optional>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "loopwright/v1/record.pb.h"
#include "schedules/targets/cpu/cpu_target.h"
#include "schedules/targets/family.h"
#include "src/base/rng.h"
#include "tuner_db/ladder/ladder.h"
#include "tuner_db/messages/message_fields.h"
#include "tuner_db/messages/messages.h"
#include "tuner_db/messages/record_lines.h"
#include "tuner_db/records/record_codec.h"
#include "tuner_db/store.h"

namespace lw {
namespace {

namespace pb = google::protobuf;
namespace v1 = loopwright::v1;

template <class T, class Message>
struct Form {
  using Value = T;
  using Proto = Message;
};

template <class Forms>
class Described_ : public ::testing::Test {};
using Forms =
    ::testing::Types<Form<Key, v1::Key>, Form<Measurement, v1::Measurement>,
                     Form<WorkloadRow, v1::Workload>, Form<RankedTrace, v1::RankedTrace>,
                     Form<ScheduleRecord, v1::ScheduleRecord>, Form<Target, v1::Target>,
                     Form<CacheLevel, v1::CacheLevel>, Form<Atom, v1::Atom>>;
TYPED_TEST_SUITE(Described_, Forms);

// Of a target: of the family whose fields the message has.
template <class T>
T blank() {
  T value;
  if constexpr (std::is_same_v<T, Target>) set_cpu(&value, {});
  return value;
}

TYPED_TEST(Described_, HasTheNumbersAndNamesOfItsMessage) {
  const pb::Descriptor& message = *TypeParam::Proto::descriptor();
  std::set<int> described;
  int last = 0;
  typename TypeParam::Value value = blank<typename TypeParam::Value>();
  TypeParam::Value::fields(value, [&](FieldId field, auto&) {
    const pb::FieldDescriptor* same = message.FindFieldByNumber(field.number);
    ASSERT_NE(same, nullptr) << field.name;
    if (!field.opposite) {
      EXPECT_EQ(same->name(), field.name);
    }
    // What is kept of later versions is printed last, whatever its number.
    if (std::string_view(field.name) != "later") {
      EXPECT_GT(field.number, last) << field.name;
      last = field.number;
    }
    described.insert(field.number);
  });
  for (int i = 0; i < message.field_count(); ++i) {
    EXPECT_EQ(described.count(message.field(i)->number()), 1u) << message.field(i)->name();
  }
}

// Any contents of a message, every second field absent.
void fill_message(pb::Message* message, Rng& rng) {
  const pb::Reflection& reflection = *message->GetReflection();
  const pb::Descriptor& type = *message->GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const pb::FieldDescriptor* field = type.field(i);
    const bool is_word = field->name() == "a" || field->name() == "b" || field->name() == "acc";
    const auto text = [&] {
      return is_word ? std::string("f32")
                     : std::string("x\xC3\xA9") + std::to_string(rng.below(99));
    };
    const auto whole = [&](int64_t most) { return rng.below(2) == 0 ? rng.below(most) : -1; };
    if (!is_word && field->enum_type() == nullptr && rng.below(2) == 0) continue;
    const int count = field->is_repeated() ? static_cast<int>(rng.below(4)) : 1;
    for (int k = 0; k < count; ++k) {
      const bool many = field->is_repeated();
      switch (field->cpp_type()) {
        case pb::FieldDescriptor::CPPTYPE_STRING:
          many ? reflection.AddString(message, field, text())
               : reflection.SetString(message, field, text());
          break;
        case pb::FieldDescriptor::CPPTYPE_DOUBLE: {
          const double values[] = {-0.0, 0.5, -1e300, std::numeric_limits<double>::infinity()};
          const double value = values[rng.below(4)];
          many ? reflection.AddDouble(message, field, value)
               : reflection.SetDouble(message, field, value);
          break;
        }
        case pb::FieldDescriptor::CPPTYPE_INT64:
          many ? reflection.AddInt64(message, field, whole(int64_t{1} << 62))
               : reflection.SetInt64(message, field, whole(int64_t{1} << 62));
          break;
        case pb::FieldDescriptor::CPPTYPE_INT32:
          reflection.SetInt32(message, field, static_cast<int>(whole(1 << 30)));
          break;
        case pb::FieldDescriptor::CPPTYPE_UINT64:
          reflection.SetUInt64(message, field, rng.next());
          break;
        case pb::FieldDescriptor::CPPTYPE_BOOL: reflection.SetBool(message, field, true); break;
        case pb::FieldDescriptor::CPPTYPE_ENUM:
          reflection.SetEnum(message, field, field->enum_type()->value(static_cast<int>(
              1 + rng.below(field->enum_type()->value_count() - 1))));
          break;
        case pb::FieldDescriptor::CPPTYPE_MESSAGE:
          fill_message(many ? reflection.AddMessage(message, field)
                    : reflection.MutableMessage(message, field), rng);
          break;
        default: FAIL() << field->name() << " is of a type that nothing here has";
      }
    }
  }
}

TYPED_TEST(Described_, GoesIntoItsMessageAndBack) {
  Rng rng(19);
  for (int round = 0; round < 200; ++round) {
    typename TypeParam::Proto message;
    fill_message(&message, rng);
    if constexpr (std::is_same_v<typename TypeParam::Value, ScheduleRecord>) {
      message.mutable_key();               // a record has one, empty or not
    }
    typename TypeParam::Value value = blank<typename TypeParam::Value>();
    const absl::Status read = from_message(message, &value);
    ASSERT_TRUE(read.ok()) << read << "\n" << message.DebugString();
    EXPECT_EQ(as_message<typename TypeParam::Proto>(value).SerializeAsString(),
              message.SerializeAsString())
        << message.DebugString();
  }
}

TEST(Messages, FieldsOfLaterVersionsArePassedOver) {
  v1::ScheduleRecord message;
  ScheduleRecord record;
  // Within what a value holds, too: field 10 of the record's key.
  ASSERT_TRUE(message.ParseFromString(std::string("\x0A\x05\x0A\x01w\x50\x01", 7)));
  EXPECT_TRUE(from_message(message, &record).ok());
  EXPECT_EQ(record.key.workload, "w");
}

// A server of the next version answers this one's clients, which read what they know.
TEST(Messages, RecordsOfLaterVersionsAreReadAllTheSame) {
  ScheduleRecord record;
  record.key = {std::string(64, 'a'), std::string(64, 'b'), "llvm 19.1.7 r1"};
  record.verified = true;
  const std::string later = to_proto(record).SerializeAsString() + std::string("\xC0\x0C\x07", 3);
  v1::ScheduleRecord message;
  ASSERT_TRUE(message.ParseFromString(later));
  ASSERT_FALSE(message.GetReflection()->GetUnknownFields(message).empty());
  const absl::StatusOr<ScheduleRecord> read = from_proto(message);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, record);
}

// Nor does a snapshot or a cache need another version for a field.
TEST(RecordCodec, RecordsOfOtherVersionsAreReadAllTheSame) {
  ScheduleRecord record;
  record.key = {std::string(64, 'a'), std::string(64, 'b'), "llvm 19.1.7 r1"};
  record.shape = {3, 4};
  record.others = {{"split", 2.5}, {"", 3}};
  record.time_kind = TimeKind::kEstimated;
  record.verified = true;
  ByteWriter now;
  encode(record, now);
  const std::string fields = now.bytes().substr(8);
  const auto decoded = [](const std::string& bytes) {
    ByteWriter out;
    out.text(bytes);
    ByteReader in(out.bytes());
    const ScheduleRecord read = decode_record(in);
    return in.finished() ? std::optional(read) : std::nullopt;
  };
  EXPECT_EQ(decoded(fields), record);
  EXPECT_EQ(decoded(fields + "a later version's"), record);
  ScheduleRecord before = record;          // the last field had not been
  before.time_kind = TimeKind::kMeasured;
  EXPECT_EQ(decoded(fields.substr(0, fields.size() - 8)), before);
  EXPECT_EQ(decoded(fields.substr(0, fields.size() - 1)), std::nullopt);
  std::string kind = fields;
  kind[fields.size() - 8] = 25;            // a kind of time that is not known here
  EXPECT_EQ(decoded(kind), std::nullopt);
}

TEST(Messages, FieldsOfLaterVersionsOfATargetAreAnObject) {
  Target target = *find_target("x86_avx2");
  target.caches[1].later = R"({"banks": {"of": 16}})";
  EXPECT_EQ(to_text(*from_proto(to_proto(target))), to_text(target));
  const std::string nested(100'000, '[');
  for (const std::string& later : {std::string("banks"), std::string("[1]"), nested}) {
    Target other = target;
    other.atoms[0].later = later;
    EXPECT_EQ(from_proto(to_proto(other)).status().code(), absl::StatusCode::kInvalidArgument);
    other = target;
    other.later = later;
    EXPECT_EQ(from_proto(to_proto(other)).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

// As a later version sends a machine of a family that nobody knows here.
TEST(Messages, TargetsOfUnknownFamiliesArePassedOn) {
  v1::Target message;
  message.set_name("toy4");
  message.set_family("toy");
  message.set_ghz(1.5);
  message.set_cores(4);
  message.set_later(R"({"units":8,"rows":{"of":16}})");
  const absl::StatusOr<Target> target = from_proto(message);
  ASSERT_TRUE(target.ok()) << target.status();
  EXPECT_EQ(target->part.family(), nullptr);
  EXPECT_EQ(later_fields(*target), "units, rows");
  EXPECT_EQ(to_proto(*target).SerializeAsString(), message.SerializeAsString());
  EXPECT_EQ(to_text(*read_target(to_text(*target))), to_text(*target));
  message.clear_family();
  EXPECT_THAT(from_proto(message).status().ToString(), testing::HasSubstr("it has no family"));
}

// What only its family's targets have travels in `later`, whole, and who does not know the family
// passes it on.
TEST(Messages, TargetsOfNpusAreWhole) {
  for (const char* name : {"npu_mid32", "npu_edge16", "npu_onnxim128", "npu_vta16"}) {
    SCOPED_TRACE(name);
    const Target target = *find_target(name);
    const v1::Target message = to_proto(target);
    EXPECT_EQ(message.family(), "npu");
    EXPECT_THAT(message.later(), testing::HasSubstr("\"mx.R\":"));
    const absl::StatusOr<Target> read = from_proto(message);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(to_text(*read), to_text(target));
    EXPECT_EQ(later_fields(*read), "");
    EXPECT_EQ(target_distance(*read, target), 0);
    EXPECT_EQ(to_proto(*read).SerializeAsString(), message.SerializeAsString());
  }
}

TEST(Messages, TargetsOfNpusThatContradictThemselvesAreRefused) {
  const v1::Target message = to_proto(*find_target("npu_mid32"));
  const auto refusal = [&](const std::string& from, const std::string& to) {
    v1::Target changed = message;
    std::string& later = *changed.mutable_later();
    later.replace(later.find(from), from.size(), to);
    const absl::Status status = from_proto(changed).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(refusal("\"dram.page\":512", "\"dram.page\":500"),
              testing::HasSubstr("dram.page: a power of two, not 500"));
  EXPECT_THAT(refusal("\"mx.R\":32", "\"mx.R\":-1"), testing::HasSubstr("mx.R is negative"));
  v1::Target fast = message;
  fast.mutable_atoms(0)->set_per_cycle(1e9);
  EXPECT_THAT(from_proto(fast).status().ToString(), testing::HasSubstr("atom i8_mx"));
}

// Another architecture of a known family is no unknown one.
TEST(Messages, TargetsOfOtherArchitecturesAreWhole) {
  Target target = *find_target("x86_avx2");
  target.architecture = "riscv64";
  EXPECT_EQ(to_text(*from_proto(to_proto(target))), to_text(target));
}

TEST(Messages, WhatALaterVersionSaysIsRefusedByName) {
  v1::Measurement message;
  Measurement m;
  EXPECT_THAT(std::string(from_message(message, &m).message()),
              testing::HasSubstr("it has no verdict"));
  message.set_verdict(static_cast<v1::Verdict>(77));
  const absl::Status verdict = from_message(message, &m);
  EXPECT_TRUE(is_unknown_here(verdict));
  EXPECT_THAT(std::string(verdict.message()), testing::HasSubstr("the verdict 77"));
  v1::Atom atom;
  atom.set_a("f32"), atom.set_b("f6"), atom.set_acc("f32");
  Atom read;
  const absl::Status type = from_message(atom, &read);
  EXPECT_TRUE(is_unknown_here(type));
  EXPECT_THAT(std::string(type.message()), testing::HasSubstr("the b f6"));
}

}  // namespace
}  // namespace lw
