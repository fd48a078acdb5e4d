// What is stored is described once: its description is its message's, its bytes are protobuf's, and
// what a later version wrote is passed over or named.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <limits>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "loopwright/v1/record.pb.h"
#include "schedules/targets/target.h"
#include "src/base/rng.h"
#include "src/base/fields/wire.h"
#include "tuner_db/ladder/ladder.h"
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

TYPED_TEST(Described_, HasTheNumbersAndNamesOfItsMessage) {
  const pb::Descriptor& message = *TypeParam::Proto::descriptor();
  std::set<int> described;
  int last = 0;
  typename TypeParam::Value value;
  TypeParam::Value::fields(value, [&](FieldId field, auto&) {
    const pb::FieldDescriptor* same = message.FindFieldByNumber(field.number);
    ASSERT_NE(same, nullptr) << field.name;
    if (!field.opposite) {
      EXPECT_EQ(same->name(), field.name);
    }
    EXPECT_GT(field.number, last) << field.name;
    last = field.number;
    described.insert(field.number);
  });
  for (int i = 0; i < message.field_count(); ++i) {
    EXPECT_EQ(described.count(message.field(i)->number()), 1u) << message.field(i)->name();
  }
}

// Any contents of a message, every second field absent.
void fill(pb::Message* message, Rng& rng) {
  const pb::Reflection& reflection = *message->GetReflection();
  const pb::Descriptor& type = *message->GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const pb::FieldDescriptor* field = type.field(i);
    const bool is_word = field->name() == "a" || field->name() == "b" || field->name() == "acc";
    const auto text = [&] {
      return is_word ? std::string("f32") : std::string("x\xC3\xA9") + std::to_string(rng.below(99));
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
          fill(many ? reflection.AddMessage(message, field)
                    : reflection.MutableMessage(message, field), rng);
          break;
        default: FAIL() << field->name() << " is of a type that nothing here has";
      }
    }
  }
}

TYPED_TEST(Described_, BytesAreThoseOfItsMessage) {
  Rng rng(19);
  for (int round = 0; round < 200; ++round) {
    typename TypeParam::Proto message;
    fill(&message, rng);
    if constexpr (std::is_same_v<typename TypeParam::Value, ScheduleRecord>) {
      message.mutable_key();               // a record has one, empty or not
    }
    const std::string bytes = message.SerializeAsString();
    typename TypeParam::Value value;
    const absl::Status read = from_wire(bytes, /*refuse=*/true, &value);
    ASSERT_TRUE(read.ok()) << read << "\n" << message.DebugString();
    EXPECT_EQ(to_wire(value), bytes) << message.DebugString();
  }
}

TYPED_TEST(Described_, AnyBytesAreReadOrRefused) {
  Rng rng(23);
  for (int round = 0; round < 300; ++round) {
    typename TypeParam::Proto message;
    fill(&message, rng);
    std::string bytes = message.SerializeAsString();
    if (round % 3 == 0) bytes.resize(static_cast<size_t>(rng.below(bytes.size() + 1)));
    for (int k = 0; k < round % 3 && !bytes.empty(); ++k) {
      bytes[static_cast<size_t>(rng.below(bytes.size()))] = static_cast<char>(rng.below(256));
    }
    typename TypeParam::Value value;
    from_wire(bytes, round % 2 == 0, &value).IgnoreError();
  }
}

TEST(Wire, FieldsOfLaterVersionsArePassedOverOrNamed) {
  RankedTrace trace{"split", 2.5}, read;
  const std::string later = to_wire(trace) + std::string("\x28\x07", 2);   // field 5, a 7
  ASSERT_TRUE(from_wire(later, /*refuse=*/false, &read).ok());
  EXPECT_EQ(read, trace);
  const absl::Status refused = from_wire(later, /*refuse=*/true, &read);
  EXPECT_TRUE(is_unknown_here(refused));
  EXPECT_THAT(std::string(refused.message()), testing::HasSubstr("the field 5"));
  // Within what a value holds, too.
  ScheduleRecord record;
  const std::string within("\x0A\x05\x0A\x01w\x50\x01", 7);   // field 10 of the record's key
  EXPECT_TRUE(from_wire(within, /*refuse=*/false, &record).ok());
  EXPECT_EQ(record.key.workload, "w");
  EXPECT_TRUE(is_unknown_here(from_wire(within, /*refuse=*/true, &record)));
}

TEST(Wire, WhatALaterVersionSaysIsRefusedByName) {
  v1::Measurement message;
  Measurement m;
  EXPECT_THAT(std::string(from_wire(message.SerializeAsString(), false, &m).message()),
              testing::HasSubstr("it has no verdict"));
  message.set_verdict(static_cast<v1::Verdict>(77));
  const absl::Status verdict = from_wire(message.SerializeAsString(), false, &m);
  EXPECT_TRUE(is_unknown_here(verdict));
  EXPECT_THAT(std::string(verdict.message()), testing::HasSubstr("the verdict 77"));
  v1::Atom atom;
  atom.set_a("f32"), atom.set_b("f6"), atom.set_acc("f32");
  Atom read;
  const absl::Status type = from_wire(atom.SerializeAsString(), false, &read);
  EXPECT_TRUE(is_unknown_here(type));
  EXPECT_THAT(std::string(type.message()), testing::HasSubstr("the b f6"));
}

TEST(Wire, NumbersThatDoNotFitAreDamage) {
  v1::Key wide;
  wide.set_threads(3);
  std::string bytes = wide.SerializeAsString();
  bytes.back() = '\xFF';
  bytes += std::string("\xFF\xFF\xFF\xFF\x7F");
  Key key;
  EXPECT_EQ(from_wire(bytes, true, &key).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace lw
