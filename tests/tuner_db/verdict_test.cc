// The table of verdicts against what is stored and sent.
#include "tuner_db/verdict.h"

#include <string>

#include "absl/strings/ascii.h"
#include "gtest/gtest.h"
#include "loopwright/v1/record.pb.h"
#include "src/base/message.h"
#include "tuner_db/messages/messages.h"

namespace lw {
namespace {

namespace v1 = loopwright::v1;

TEST(Verdicts, NamesAndNumbersAreTheMessages) {
  const google::protobuf::EnumDescriptor* sent = v1::Verdict_descriptor();
  ASSERT_EQ(static_cast<size_t>(sent->value_count()), std::size(kVerdicts) + 1);
  for (const VerdictRow& row : kVerdicts) {
    const google::protobuf::EnumValueDescriptor* value =
        sent->FindValueByNumber(static_cast<int>(row.verdict));
    ASSERT_NE(value, nullptr) << row.name;
    EXPECT_EQ(value->name(), "VERDICT_" + absl::AsciiStrToUpper(std::string(row.name)));
    EXPECT_EQ(from_proto(to_proto(row.verdict)), row.verdict);
    Verdict parsed = Verdict::kOk;
    EXPECT_TRUE(parse_verdict(row.name, &parsed));
    EXPECT_EQ(parsed, row.verdict);
  }
}

TEST(Verdicts, WhatIsStoredAndSentNeverChanges) {
  std::string words;
  for (const VerdictRow& row : kVerdicts) {
    words += concat(static_cast<int>(row.verdict), " ", row.name, "\n");
  }
  EXPECT_TRUE(words.starts_with("1 ok\n2 build_error\n3 crash\n4 timeout\n5 wrong_result\n"
                                "6 device_limit\n7 worker_lost\n8 device_unhealthy\n"
                                "9 throttled\n")) << words;
}

TEST(Verdicts, OfAnotherVersionAreNone) {
  Verdict verdict = Verdict::kCrash;
  EXPECT_FALSE(parse_verdict("haunted", &verdict));
  for (const int number : {-1, 0, 99, 256 + 3}) {
    EXPECT_FALSE(parse_verdict(number, &verdict)) << number;
    EXPECT_FALSE(from_proto(static_cast<v1::Verdict>(number)).has_value()) << number;
  }
  EXPECT_EQ(verdict, Verdict::kCrash);
}

// What is charged is learned from, and would not be if it were measured until it goes.
TEST(Verdicts, ACandidatesFaultIsNotRetried) {
  for (const VerdictRow& row : kVerdicts) {
    EXPECT_FALSE(row.blame == Blame::kCandidate && row.is_retried) << row.name;
    EXPECT_EQ(row.verdict == Verdict::kOk,
              row.blame == Blame::kNobody && !row.is_retried) << row.name;
  }
}

}  // namespace
}  // namespace lw
