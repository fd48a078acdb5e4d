// Exports of other versions: what this one cannot read is left out and counted, what is damaged is
// refused whole.
#include <functional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/store_fixture.h"
#include "tuner_db/messages/messages.h"
#include "tuner_db/messages/record_lines.h"
#include "tuner_db/messages/records.h"

namespace lw {
namespace {

namespace v1 = loopwright::v1;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A record with all that it needs.
v1::Record record(int trace, int extent = 64) {
  v1::Record made;
  *made.mutable_key() = to_proto(make_key(make_workload(extent), make_target()));
  *made.mutable_measurement() = to_proto(make_measurement(trace, {10.0 + trace, 11.0 + trace}));
  *made.mutable_workload() = to_proto(make_workload(extent));
  *made.mutable_target() = to_proto(make_target());
  return made;
}

// Its line, with one piece of text for another.
std::string line(const v1::Record& record, const std::string& piece = "",
                 const std::string& other = "") {
  std::string text = record_line(record);
  if (!piece.empty()) {
    const size_t at = text.find(piece);
    CHECK(at != std::string::npos);
    text.replace(at, piece.size(), other);
  }
  return text + "\n";
}

struct Imported {
  absl::Status status;
  int64_t stored = 0;
  Skipped skipped;
  std::unique_ptr<Store> store = make_memory_store();
};
Imported import(const std::string& lines, bool strict = false) {
  Imported done;
  done.status = import_records(*done.store, lines, &done.stored, strict ? nullptr : &done.skipped);
  EXPECT_THAT(*done.store->check(), IsEmpty());
  return done;
}

TEST(Import, WhatAnotherVersionWroteIsLeftOutAndCounted) {
  const struct {
    const char *piece, *other, *reason;
  } cases[] = {
      {"split(C", "tile_again(C", "the step tile_again"},
      {"split(C", "split@9(C", "the step split@9"},
      {"\"VERDICT_OK\"", "\"VERDICT_OVERTAKEN\"", "the measurement.verdict VERDICT_OVERTAKEN"},
      {"\"VERDICT_OK\"", "77", "the verdict 77"},
      {"\"inner\":", "\"joules\":1.5,\"inner\":", "the field measurement.joules"},
      {"\"seed\":", "\"timeKind\":17,\"seed\":", "the time_kind 17"},
      {"{\"key\":{", "{\"tenant\":\"a\",\"key\":{", "the field tenant"},
      {"{\"key\":{", "{\"key\":{\"precision\":\"bf16\",", "the field key.precision"}};
  for (const auto& [piece, other, reason] : cases) {
    SCOPED_TRACE(other);
    const std::string lines =
        line(record(1), piece, other) + line(record(2)) + line(record(3), piece, other);
    const Imported done = import(lines);
    ASSERT_TRUE(done.status.ok()) << done.status;
    EXPECT_EQ(done.stored, 1);
    EXPECT_EQ(done.skipped.records, 2);
    ASSERT_EQ(done.skipped.kinds.size(), 1u);
    EXPECT_THAT(done.skipped.kinds[0].reason, HasSubstr(reason));
    EXPECT_EQ(done.skipped.kinds[0].count, 2);
    EXPECT_EQ(lines.find(done.skipped.kinds[0].example), 0u) << "the first of them";
    EXPECT_EQ(done.store->keys()->size(), 1u);

    const Imported refused = import(lines, /*strict=*/true);
    EXPECT_TRUE(absl::IsInvalidArgument(refused.status)) << refused.status;
    EXPECT_THAT(std::string(refused.status.message()), HasSubstr("line 1"));
    EXPECT_EQ(refused.store->stats()->measurements, 0);
  }
}

// A stream describes a workload and a target once, with the first record of it: that this one is
// left out costs the others nothing, unless it is the description that cannot be read.
TEST(Import, DescriptionsOutliveTheRecordThatTheyCameWith) {
  v1::Record bare = record(2);
  bare.clear_workload(), bare.clear_target();
  Imported done = import(line(record(1), "split(C", "tile_again(C") + line(bare));
  ASSERT_TRUE(done.status.ok()) << done.status;
  EXPECT_EQ(done.stored, 1);
  for (const auto& [piece, other] :
       {std::pair("\"canonicalText\":", "\"layout\":\"tiled\",\"canonicalText\":"),
        std::pair("\"a\":\"f32\"", "\"a\":\"f6\""),
        std::pair("\"fma\":", "\"amx\":true,\"fma\":")}) {
    SCOPED_TRACE(other);
    done = import(line(record(1), piece, other) + line(bare) + line(record(3, 128)));
    ASSERT_TRUE(done.status.ok()) << done.status;
    EXPECT_EQ(done.skipped.records, 2);
    EXPECT_EQ(done.stored, 1);
  }
}

TEST(Import, WhatIsDamagedIsRefusedWhole) {
  const std::pair<const char*, const char*> damage[] = {
      {"\"inner\":", "\"inner\"="},                // no JSON
      {"\"timeUs\":", "\"timeUs\":9"},             // not among its samples
      {"\"id\":\"", "\"id\":\"0"},                 // not the sha256 of its text
      {"split(C", "split C"},                      // no step of any version
      {"\"verdict\":\"VERDICT_OK\",", ""},         // never left out
      {"\"threads\":2", "\"threads\":-2"}};
  for (const auto& [piece, other] : damage) {
    SCOPED_TRACE(other);
    const std::string lines = line(record(1), "split(C", "tile_again(C") + line(record(2)) +
                              line(record(3, 128), piece, other);
    for (const bool strict : {false, true}) {
      const Imported done = import(lines, strict);
      EXPECT_TRUE(absl::IsInvalidArgument(done.status)) << done.status;
      if (!strict) EXPECT_THAT(std::string(done.status.message()), HasSubstr("line 3"));
      EXPECT_EQ(done.store->stats()->measurements, 0);
    }
  }
  // Nor is a record without its workload another version's while nothing was left out.
  v1::Record bare = record(1);
  bare.clear_workload();
  EXPECT_TRUE(absl::IsInvalidArgument(import(line(bare)).status));
}

TEST(Import, ReasonsAreFewAndShort) {
  std::string lines;
  for (int i = 0; i < 100; ++i) {
    lines += line(record(1), "split(C", absl::StrCat("step", i, "_", std::string(500, 'x'), "(C"));
  }
  const Imported done = import(lines);
  ASSERT_TRUE(done.status.ok()) << done.status;
  EXPECT_EQ(done.skipped.records, 100);
  EXPECT_EQ(done.skipped.kinds.size(), 20u);
  int64_t sum = 0;
  for (const Skipped::Kind& kind : done.skipped.kinds) {
    sum += kind.count;
    EXPECT_LE(kind.reason.size() + kind.example.size(), 700u);
  }
  EXPECT_EQ(sum, 100);
}

// On the wire a later version's fields come as bytes that nobody reads.
TEST(Import, UnknownBytesAreFound) {
  const auto with_field = [](google::protobuf::Message* message) {
    message->GetReflection()->MutableUnknownFields(message)->AddVarint(1000, 7);
  };
  v1::Record whole = record(1);
  EXPECT_EQ(leave_out_unknown(&whole), "");
  EXPECT_EQ(whole.SerializeAsString(), record(1).SerializeAsString());
  with_field(whole.mutable_measurement());
  EXPECT_THAT(leave_out_unknown(&whole), HasSubstr("measurement"));
  EXPECT_FALSE(whole.has_measurement() || whole.has_key());
  EXPECT_TRUE(whole.has_workload() && whole.has_target());
  whole = record(1);
  with_field(whole.mutable_target()->add_caches());
  EXPECT_THAT(leave_out_unknown(&whole), HasSubstr("target"));
  EXPECT_TRUE(whole.has_measurement() && whole.has_workload() && !whole.has_target());
  whole = record(1);
  with_field(&whole);
  EXPECT_THAT(leave_out_unknown(&whole), HasSubstr("record"));
  EXPECT_FALSE(whole.has_measurement());
}

}  // namespace
}  // namespace lw
