// The fuzz targets of what the service is told, on some thousand mutations of real messages and of
// the recorded ones: what every build can check without a fuzzer.
#include <cstdint>

#include "gtest/gtest.h"
#include "schedules/targets/target.h"
#include "tests/support/fault_fixture.h"

#define LLVMFuzzerTestOneInput feed_words
#include "fuzz/names_fuzz.cc"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput feed_request
#include "fuzz/requests_fuzz.cc"
#undef LLVMFuzzerTestOneInput

namespace lw {
namespace {

using Feed = int (*)(const uint8_t*, size_t);

void feed(Feed target, const std::string& text) {
  target(reinterpret_cast<const uint8_t*>(text.data()), text.size());
}

// Bytes flipped, cut out, doubled, or replaced by what readers stumble over.
std::string mutate(std::string text, size_t from, Rng& rng) {
  static const std::vector<std::string> pieces = {
      "-1", "0", "9223372036854775807", "99999999999999999999", "\"", "\\", "=", "!=", " AND ", "/",
      "%", "&", std::string(1, '\0'), "\xff", "1e308", "nan", "{", "}", "null", "\xC3\xA9",
      "\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"};
  for (int64_t n = 1 + rng.below(4); n > 0 && text.size() > from; --n) {
    const size_t at =
        from + static_cast<size_t>(rng.below(static_cast<int64_t>(text.size() - from)));
    const size_t length = 1 + static_cast<size_t>(rng.below(8));
    switch (rng.below(4)) {
      case 0: text[at] = static_cast<char>(rng.below(256)); break;
      case 1: text.erase(at, length); break;
      case 2: text.insert(at, text.substr(at, length)); break;
      default: text.replace(at, length, pieces[static_cast<size_t>(
                   rng.below(static_cast<int64_t>(pieces.size())))]);
    }
  }
  return text;
}

void expect_no_harm(Feed target, const std::vector<std::string>& seeds, size_t from,
                    int mutations) {
  Rng rng(1);
  for (const std::string& seed : seeds) feed(target, seed);
  for (int i = 0; i < mutations; ++i) {
    feed(target, mutate(seeds[static_cast<size_t>(rng.below(static_cast<int64_t>(seeds.size())))],
                        from, rng));
  }
}

TEST(ServeFuzz, Words) {
  expect_no_harm(
      feed_words,
      {"state = RUNNING AND client = \"ci\" AND priority >= 10",
       "create_time > \"2026-11-01T00:00:00Z\" AND state != \"a\\\"b\"",
       page_token("list", "01ABCDEF"), page_token("list", ""), "studies/01HZX-a.b", "jobs/17",
       "{\"quotas\": {\"queued_jobs\": 20000, \"message_bytes\": 4194304}, "
       "\"calls_per_second\": {\"read\": 50, \"lookup\": {\"rate\": 200, \"burst\": 9}}, "
       "\"weights\": {\"ci\": 2}, \"default_weight\": 1}"},
      0, 10'000);
}

TEST(ServeFuzz, Requests) {
  google::protobuf::SetLogHandler(nullptr);  // it names every text that is not UTF-8
  FleetAgent agent("a1", "s1", {"d1", "d2"});
  v1::Job job;
  job.set_name("jobs/1");
  job.set_epoch(1);
  job.set_device("devices/d1");
  job.add_candidates()->set_trace(make_trace(1));
  agent.owe(measured(job));
  v1::SynchronizeRequest request = agent.request();
  std::vector<std::string> seeds = {std::string(1, '\0') + request.SerializeAsString()};
  request.set_leaving(true);
  v1::HeldJob& held = *request.mutable_devices(0)->add_held();
  held.set_job("jobs/3");
  held.set_epoch(2);
  (*request.mutable_labels())["rack"] = "r2";
  seeds.push_back(std::string(1, '\0') + request.SerializeAsString());
  seeds.push_back("\x01" + small_study(8).SerializeAsString());
  const std::string corpus = LW_SOURCE_DIR "/tests/data/wire/v1/";
  seeds.push_back(std::string(1, '\0') + slurp(corpus + "SynchronizeRequest.bin"));
  seeds.push_back("\x01" + slurp(corpus + "StudySpec.bin"));
  seeds.push_back("\x02" + slurp(corpus + "Record.bin"));
  std::unique_ptr<Store> store = make_memory_store();
  std::vector<Measurement> batch = {make_measurement(1, {10, 11})};
  ASSERT_TRUE(store->append(put_key(*store), batch).ok());
  seeds.push_back("\x03" + *export_records(*store));
  seeds.push_back("\x04state=running&limit=20&before=01AB&after=7&search=matmul&id=01AB");
  seeds.push_back("\x04limit=0&after=-1&search=%25_&state='");
  expect_no_harm(feed_request, seeds, 1, 6'000);
  EXPECT_TRUE(make_store(*open_sqlite(scratch_database().path(), {}))->check()->empty());
}

// The seed of a bug: a name that is made of the words must not end within a character.
TEST(ServeFuzz, ANameMadeOfLongWordsIsText) {
  for (int i = 0; i < 4; ++i) {
    v1::StudySpec spec = small_study(8);
    std::string words(static_cast<size_t>(i), 'x');
    while (words.size() < 400) words += "\xF0\x9F\x98\x80";
    spec.mutable_workloads(0)->set_source_words(words);
    const auto checked = check_spec(spec, Quotas());
    ASSERT_TRUE(checked.ok());
    EXPECT_TRUE(v1::StudySpec().ParseFromString(checked->spec.SerializeAsString()));
    EXPECT_GT(checked->spec.workloads(0).name().size(), 190u);
  }
}

}  // namespace
}  // namespace lw
