// What travels between this program and an exec device: frames and heads, there and back, and what
// is refused of them by name.
#include "src/exec/frames.h"

#include <unistd.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/base/rng.h"
#include "src/exec/heads.h"

#define LLVMFuzzerTestOneInput feed_exec
#include "fuzz/exec_fuzz.cc"
#undef LLVMFuzzerTestOneInput

namespace lw::exec {
namespace {

using testing::HasSubstr;

// As docs/exec.md has it, by hand: it does not move.
TEST(ExecFrames, LieWhereTheyAreDocumented) {
  EXPECT_EQ(encode_frame_header({0x0102, 0x030405}),
            std::string("LWEX\2\1\0\0\5\4\3\0\0\0\0\0", 16));
  const auto header = decode_frame_header(encode_frame_header({7, 1234567890123}), 1ull << 41);
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->head_bytes, 7u);
  EXPECT_EQ(header->body_bytes, 1234567890123u);
}

TEST(ExecFrames, SayWhatIsNoFrame) {
  const auto refusal = [](const std::string& bytes, uint64_t most = kMostBodyBytes) {
    return std::string(decode_frame_header(bytes, most).status().message());
  };
  EXPECT_EQ(refusal("Hello, world!\nxy"), "no frame begins with 'Hello, world!\\nxy'");
  EXPECT_EQ(refusal("LWEX"), "no frame begins with 'LWEX'");
  EXPECT_EQ(refusal(encode_frame_header({5 << 20, 0})),
            "a frame's head of 5242880 bytes; there may be 4194304");
  EXPECT_EQ(refusal(encode_frame_header({2, 65}), 64),
            "a frame's body of 65 bytes; there may be 64");
}

TEST(ExecFrames, AreReadFromADescriptor) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_TRUE(write_frame(ends[1], "{}", "abc").ok());
  ASSERT_TRUE(write_frame(ends[1], "", "").ok());
  ASSERT_EQ(write(ends[1], "LWEX", 4), 4);
  close(ends[1]);
  const auto first = read_frame(ends[0]);
  ASSERT_TRUE(first.ok() && first->has_value()) << first.status();
  EXPECT_EQ((*first)->head, "{}");
  EXPECT_EQ((*first)->body, "abc");
  ASSERT_TRUE(read_frame(ends[0]).ok());
  EXPECT_THAT(read_frame(ends[0]).status().message(), HasSubstr("no frame begins with 'LWEX'"));
  const auto none = read_frame(ends[0]);
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_FALSE(none->has_value());
  close(ends[0]);
}

Job job() {
  Job job;
  job.format = "npu_module";
  job.program_bytes = 1344;
  job.time = job.outputs = true;
  job.arguments = {{"A", 320, false}, {"D", 2560, true}};
  job.workload = "op mm() {}";
  return job;
}

TEST(ExecHeads, GoThereAndBack) {
  const std::string hello = print(Request{1, Hello{kVersion, "npu", "{\"name\":\"x\"}"}});
  EXPECT_EQ(hello, R"({"type":"hello","id":1,"version":1,"architecture":"npu",)"
                   R"("target":{"name":"x"}})");
  EXPECT_EQ(print(*parse_request(hello)), hello);
  const std::string asked = print(Request{2, job()});
  EXPECT_EQ(asked,
            R"({"type":"job","id":2,"program":{"format":"npu_module","bytes":1344},)"
            R"("want":["time","outputs"],"arguments":[{"name":"A","bytes":320,"written":false},)"
            R"({"name":"D","bytes":2560,"written":true}],"workload":"op mm() {}"})");
  EXPECT_EQ(print(*parse_request(asked)), asked);
  const std::string greeting = print(Answer{1, Greeting{kVersion, "sim", "1.2", false, true}});
  EXPECT_EQ(greeting, R"({"type":"hello","id":1,"version":1,"name":"sim","release":"1.2",)"
                      R"("outputs":false,"exact":true})");
  EXPECT_EQ(print(*parse_answer(greeting)), greeting);
  const std::string result = print(Answer{2, Result{false, {0.1, 3}, {{"macs", 1024}}}});
  EXPECT_EQ(result, R"({"type":"result","id":2,"ns":[0.1,3.0],"counters":{"macs":1024.0}})");
  EXPECT_EQ(print(*parse_answer(result)), result);
  const std::string error = print(Answer{3, Error{ErrorCode::kWrongResult, "race: ..."}});
  EXPECT_EQ(error, R"({"type":"error","id":3,"code":"wrong_result","message":"race: ..."})");
  EXPECT_EQ(print(*parse_answer(error)), error);
}

// What a simple device writes is enough; counters within counters are named by both.
TEST(ExecHeads, TakeWhatIsEasyToWrite) {
  const auto answer = parse_answer(
      R"({"id":4,"type":"result","cycles":1234,"later":true,"counters":{"busy":{"MX":7},"x":1}})");
  ASSERT_TRUE(answer.ok()) << answer.status();
  const Result& result = std::get<Result>(answer->what);
  EXPECT_TRUE(result.in_cycles);
  EXPECT_EQ(result.samples, std::vector<double>{1234});
  ASSERT_EQ(result.counters.size(), 2u);
  EXPECT_EQ(result.counters[0].first, "busy.MX");
  const auto greeting = parse_answer(R"({"id":1,"type":"hello","version":1,"name":"s"})");
  ASSERT_TRUE(greeting.ok()) << greeting.status();
  EXPECT_TRUE(std::get<Greeting>(greeting->what).outputs);
}

TEST(ExecHeads, NameTheMemberTheValueAndWhatIsAllowed) {
  const std::pair<const char*, const char*> answers[] = {
      {"garbage", "the head is no object of JSON: \"garbage\""},
      {"[1]", "the head is no object of JSON"},
      {R"({"id":1,"type":"result","cycles":NaN})", "the head is no object of JSON"},
      {R"({"type":"result"})", "id: a whole number from 0 to 1000000000000000, and is missing"},
      {R"({"id":-1,"type":"result"})", "id: a whole number from 0 to 1000000000000000, not -1"},
      {R"({"id":1,"type":"dance"})", "type: hello, result or error, not \"dance\""},
      {R"({"id":1,"type":"result","cycles":-3})", "cycles: 1 to 10000 positive numbers, not -3"},
      {R"({"id":1,"type":"result","cycles":0})", "cycles: 1 to 10000 positive numbers, not 0"},
      {R"({"id":1,"type":"result","ns":[1,"2"]})",
       "ns: 1 to 10000 positive numbers, not [1,\"2\"]"},
      {R"({"id":1,"type":"result","ns":[]})", "ns: 1 to 10000 positive numbers, not []"},
      {R"({"id":1,"type":"result","ns":1,"counters":{"a":"b"}})",
       "counters: an object of at most 1000 finite numbers"},
      {R"({"id":1,"type":"result","ns":1,"counters":{"a\"b":1}})", "counters: an object"},
      {R"({"id":1,"type":"hello","version":1})", "name: a text, and is missing"},
      {R"({"id":1,"type":"hello","version":1,"name":"a b"})",
       "name: 1 to 63 of a-z A-Z 0-9 . _ -, not \"a b\""},
      {R"({"id":1,"type":"hello","version":1,"name":"a","exact":1})",
       "exact: true or false, not 1"},
      {R"({"id":1,"type":"error","code":"sad","message":"m"})",
       "code: refused, wrong_result, device_limit or failed, not \"sad\""},
      {R"({"id":1,"type":"error","code":"failed"})", "message: a text, and is missing"}};
  for (const auto& [head, why] : answers) {
    EXPECT_THAT(parse_answer(head).status().message(), HasSubstr(why)) << head;
  }
  const std::pair<const char*, const char*> requests[] = {
      {R"({"id":1,"type":"dance"})", "type: hello or job, not \"dance\""},
      {R"({"id":1,"type":"job"})", "program: an object, and is missing"},
      {R"({"id":1,"type":"job","program":{"format":"f"},"want":[],"arguments":[]})",
       "program.bytes: a whole number from 0 to 1000000000000, and is missing"},
      {R"({"id":1,"type":"job","program":{"format":"f","bytes":1},"want":["x"],"arguments":[]})",
       "want: a list of time, outputs, not [\"x\"]"},
      {R"({"id":1,"type":"hello","version":1,"architecture":"npu"})",
       "target: an object, and is missing"}};
  for (const auto& [head, why] : requests) {
    EXPECT_THAT(parse_request(head).status().message(), HasSubstr(why)) << head;
  }
  // Another version may say anything else.
  const auto later = parse_answer(R"({"id":1,"type":"hello","version":2,"name":7})");
  ASSERT_TRUE(later.ok()) << later.status();
  EXPECT_EQ(std::get<Greeting>(later->what).version, 2);
}

TEST(ExecHeads, DoNoHarmWhateverTheyAre) {
  const std::vector<std::string> seeds = {
      print(Request{1, Hello{kVersion, "npu", "{}"}}), print(Request{2, job()}),
      print(Answer{1, Greeting{kVersion, "sim", "1.2"}}),
      print(Answer{2, Result{true, {1, 2}, {{"a", 1}}}}),
      print(Answer{3, Error{ErrorCode::kFailed, "m"}}), encode_frame_header({3, 4})};
  const std::vector<std::string> pieces = {"-1", "1e308", "null", "[", "{", "\"", ",", "1e999"};
  Rng rng(7);
  for (int round = 0; round < 6000; ++round) {
    std::string text = seeds[rng.below(static_cast<int64_t>(seeds.size()))];
    for (int64_t n = 1 + rng.below(4); n > 0 && !text.empty(); --n) {
      const size_t at = static_cast<size_t>(rng.below(static_cast<int64_t>(text.size())));
      const size_t length = 1 + static_cast<size_t>(rng.below(8));
      switch (rng.below(4)) {
        case 0: text[at] = static_cast<char>(rng.below(256)); break;
        case 1: text.erase(at, length); break;
        case 2: text.insert(at, text.substr(at, length)); break;
        default: text.replace(at, length, pieces[rng.below(static_cast<int64_t>(pieces.size()))]);
      }
    }
    feed_exec(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  }
}

}  // namespace
}  // namespace lw::exec
