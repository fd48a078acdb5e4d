// Metrics: what was counted is exposed, the document is the table's, and hostile label values
// cannot grow it. Logs: lines that machines and people can read, whatever stands in the fields.
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <thread>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "loopwright/v1/schedule.pb.h"
#include "nlohmann/json.hpp"
#include "src/base/log.h"
#include "src/base/message.h"
#include "src/serve/core/metrics.h"
#include "src/serve/rows/rows.h"
#include "tests/support/files.h"
#include "tuner_db/store.h"

namespace lw {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Metrics, DocumentIsPrintedFromTheTable) {
  const std::string file = LW_SOURCE_DIR "/docs/metrics.md";
  if (rewrites_expectations()) std::ofstream(file) << metrics_document();
  std::ifstream in(file);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  EXPECT_EQ(text, metrics_document()) << "run with LOOPWRIGHT_UPDATE=1";
}

TEST(Metrics, NamesFollowPrometheusRules) {
  std::set<std::string_view> names;
  for (const MetricInfo& metric : metric_table()) {
    const std::string name(metric.name);
    EXPECT_TRUE(names.insert(metric.name).second) << name;
    EXPECT_TRUE(std::regex_match(name, std::regex("loopwright_[a-z_]+"))) << name;
    EXPECT_EQ(name.ends_with("_total"), metric.type == "counter") << name;
  }
}

// A label's values as the table, and so the document, lists them.
std::vector<std::string> values_of(std::string_view name) {
  for (const MetricInfo& metric : metric_table())
    if (metric.name == name) return absl::StrSplit(std::string(metric.values), ", ");
  return {};
}

template <class Enum>
std::vector<std::string> states() {
  std::vector<std::string> names;
  const google::protobuf::EnumDescriptor* states = google::protobuf::GetEnumDescriptor<Enum>();
  for (int i = 1; i < states->value_count(); ++i)
    names.push_back(state_name(static_cast<Enum>(states->value(i)->number())));
  return names;
}

TEST(Metrics, ValuesOfLabelsAreTheProgramsWords) {
  std::vector<std::string> stored, retried;
  for (const VerdictRow& row : kVerdicts) {
    (row.is_retried ? retried : stored).emplace_back(row.name);
  }
  EXPECT_EQ(values_of("loopwright_measurements_total"), stored);
  EXPECT_EQ(values_of("loopwright_discards_total"), retried);
  EXPECT_EQ(values_of("loopwright_studies"), states<loopwright::v1::StudyState>());
  EXPECT_EQ(values_of("loopwright_lookups_total"), states<loopwright::v1::LookupOutcome>());
}

TEST(Metrics, KnownValuesAreThereFromTheFirstMoment) {
  const std::string text = Metrics("1").text();
  int known = 0;
  for (const MetricInfo& metric : metric_table()) {
    if (metric.values.empty()) continue;
    for (const std::string& value : values_of(metric.name)) {
      ++known;
      EXPECT_THAT(text, HasSubstr(concat(metric.name, "{", metric.labels, "=\"", value,
                                         "\"} 0\n")));
    }
  }
  EXPECT_GT(known, 30);
}

// What `promtool check metrics` asks of an exposition (client_golang's promlint), as far as ours
// could offend.
TEST(Metrics, NamesPassPrometheusLint) {
  for (const MetricInfo& metric : metric_table()) {
    const std::string name(metric.name);
    EXPECT_FALSE(metric.help.empty()) << name;
    EXPECT_EQ(name.find(':'), std::string::npos) << name;
    for (const std::string& part : std::vector<std::string>(absl::StrSplit(name, '_'))) {
      for (const char* not_base : {"milliseconds", "ms", "us", "ns", "minutes", "hours", "days",
                                   "kilobytes", "megabytes", "bits", "percent", "gauge",
                                   "counter", "histogram", "summary", "s", "sec"})
        EXPECT_NE(part, not_base) << name;
    }
    for (const char* own : {"_count", "_sum", "_bucket"}) EXPECT_FALSE(name.ends_with(own)) << name;
    for (const std::string& label : std::vector<std::string>(absl::StrSplit(std::string(metric.labels), ',')))
      EXPECT_TRUE(label != "le" && label != "quantile") << name;
  }
}

// Everything that can happen, once.
void happen(Metrics& metrics) {
  using enum Metric;
  metrics.set(kJobsQueued, 7);
  metrics.set(kJobsLeased, 3);
  metrics.add(kLeasesExpired);
  metrics.add(kJobAttempts, 1, {"stored"});
  metrics.add(kMeasurements, 16, {"ok"});
  metrics.observe(kQueueWait, 0.02);
  metrics.observe(kMeasureSeconds, 2.5);
  metrics.add(kDiscards, 1, {"throttled"});
  metrics.set_all(kDevices, {{"online", 2}, {"quarantined", 1}});
  metrics.set(kAgentsOnline, 2);
  metrics.set_all(kStudies, {{"running", 1}});
  metrics.observe(kCommitSeconds, 0.004);
  metrics.observe(kCommitOperations, 12);
  metrics.set(kWalBytes, 4096);
  metrics.set(kDatabaseReadOnly, 1);
  metrics.add(kLookups, 1, {"exact"});
  metrics.observe(kLookupSeconds, 0.0001);
  count_call(metrics, "GetStudy", "OK", 0.001);
  metrics.add(kStreamsOpen);
  metrics.add(kTuningSeconds, 1.5, {"measure"});
  metrics.add(kTuningCost, 1.5, {"measure"});
}

TEST(Metrics, EveryRowOfTheTableIsExposed) {
  Metrics metrics("1.2.3");
  happen(metrics);
  const std::string text = metrics.text();
  for (const MetricInfo& metric : metric_table()) {
    EXPECT_THAT(text, HasSubstr("# TYPE " + std::string(metric.name) + " " +
                                std::string(metric.type) + "\n"));
  }
  for (const char* line :
       {"loopwright_jobs_queued 7", "loopwright_measurements_total{verdict=\"ok\"} 16",
        "loopwright_devices{state=\"quarantined\"} 1", "loopwright_database_read_only 1",
        "loopwright_rpc_total{code=\"OK\",method=\"GetStudy\"} 1", "loopwright_streams_open 1",
        "loopwright_commit_operations_bucket{le=\"16\"} 1",
        "loopwright_rpc_seconds_count{method=\"GetStudy\"} 1",
        "loopwright_build_info{version=\"1.2.3\"} 1"}) {
    EXPECT_THAT(text, HasSubstr(std::string(line))) << text;
  }
}

// Its package brings a daemon along and 96 MB: packages.txt goes without, and so may this test.
TEST(Metrics, PromtoolAcceptsTheExposition) {
  if (std::system("promtool --version > /dev/null 2>&1") != 0)
    GTEST_SKIP() << "promtool is not here (Debian's package prometheus)";
  Metrics metrics("1.2.3");
  happen(metrics);
  const std::string file = testing::TempDir() + "metrics." + std::to_string(getpid());
  std::ofstream(file) << metrics.text();
  EXPECT_EQ(std::system(("promtool check metrics < '" + file + "'").c_str()), 0);
  std::remove(file.c_str());
}

TEST(Metrics, AStreamHasNoLatency) {
  Metrics metrics("1");
  count_call(metrics, "WatchStudy", "OK", std::nullopt);
  EXPECT_THAT(metrics.text(), HasSubstr("loopwright_rpc_total{code=\"OK\",method=\"WatchStudy\"}"));
  EXPECT_THAT(metrics.text(),
              Not(HasSubstr("loopwright_rpc_seconds_count{method=\"WatchStudy\"}")));
}

TEST(Metrics, WhatNeverHappenedIsZeroWhereItHasNoLabels) {
  EXPECT_THAT(Metrics("1").text(), HasSubstr("loopwright_leases_expired_total 0"));
}

TEST(Metrics, AStateThatIsGoneBecomesZero) {
  Metrics metrics("1");
  metrics.set_all(Metric::kDevices, {{"online", 2}, {"offline", 1}});
  metrics.set_all(Metric::kDevices, {{"online", 1}});
  EXPECT_THAT(metrics.text(), HasSubstr("loopwright_devices{state=\"offline\"} 0"));
}

TEST(Metrics, ManyLabelValuesBecomeOther) {
  Metrics metrics("1");
  for (int i = 0; i < 5000; ++i) count_call(metrics, "Method" + std::to_string(i), "OK", 0.001);
  const std::string text = metrics.text();
  EXPECT_THAT(text, HasSubstr("loopwright_rpc_total{code=\"other\",method=\"other\"} 4900"));
  EXPECT_LT(text.size(), 400'000u);
}

TEST(Metrics, CountsFromManyThreads) {
  Metrics metrics("1");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) count_call(metrics, i % 2 != 0 ? "A" : "B", "OK", 0.01);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(metrics.text(), HasSubstr("loopwright_rpc_total{code=\"OK\",method=\"A\"} 1000"));
}

TEST(Log, JsonLineHoldsItsFields) {
  const std::string line = log_line(
      Level::kWarning, "lease_expired",
      {{"job", 81}, {"agent", "agents/a1"}, {"seconds", 1.5}, {"poison", true}, {"nan", 0.0 / 0.0}},
      1'795'285'917'042, true);
  EXPECT_EQ(line, "{\"time\":\"2026-11-21T18:31:57.042Z\",\"level\":\"warning\",\"event\":"
                  "\"lease_expired\",\"job\":81,\"agent\":\"agents/a1\",\"seconds\":1.5,"
                  "\"poison\":true,\"nan\":null}\n");
}

TEST(Log, ReadableLineForTerminals) {
  EXPECT_EQ(
      log_line(Level::kInfo, "study_made", {{"study", "s1"}, {"name", "two words"}}, 42, false),
      "00:00:00.042  info     study_made  study=s1 name=\"two words\"\n");
}

TEST(Log, HostileTextStaysOneLineOfValidJson) {
  std::string hostile =
      "a\nb\x1b[2J\"\\\xff\xc0\xaf\xc2\x9b\xe2\x80\xa8\xed\xa0\x80 gr\xc3\xbc\xc3\x9f";
  hostile.push_back('\0');
  const std::string line = log_line(Level::kError, "x", {{"text", hostile}}, 0, true);
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  const auto parsed = nlohmann::json::parse(line, nullptr, false);
  ASSERT_FALSE(parsed.is_discarded()) << line;
  EXPECT_THAT(parsed["text"].get<std::string>(), HasSubstr("gr\xc3\xbc\xc3\x9f"));
  EXPECT_THAT(log_line(Level::kError, "x", {{"text", hostile}}, 0, false), Not(HasSubstr("\x1b")));
  const std::string longest =
      log_line(Level::kError, "x", {{"text", std::string(100'000, 'y')}}, 0, true);
  EXPECT_LT(longest.size(), 1200u);
}

TEST(Log, LinesBelowTheLevelAreNotWritten) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  set_log_output(ends[1], true);
  set_log_level(Level::kWarning);
  log(Level::kInfo, "quiet");
  log(Level::kError, "loud", {{"job", 1}});
  set_log_level(Level::kInfo);
  set_log_output(2, false);
  close(ends[1]);
  char text[512] = {};
  ASSERT_GT(read(ends[0], text, sizeof(text) - 1), 0);
  close(ends[0]);
  EXPECT_THAT(std::string(text), HasSubstr("\"event\":\"loud\",\"job\":1}\n"));
  EXPECT_THAT(std::string(text), Not(HasSubstr("quiet")));
  Level level;
  EXPECT_TRUE(parse_level("debug", &level));
  EXPECT_FALSE(parse_level("loud", &level));
}

}  // namespace
}  // namespace lw
