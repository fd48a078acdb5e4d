// The C interface: what it answers is what the rooms behind it answer, and what is wrong has its
// code. (A consumer in C, of the installed library: tests/package/npu.)
#include <cstring>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "loopwright/npu.h"
#include "src/npu/isa/encode.h"
#include "src/npu/isa/text.h"
#include "src/npu/module.h"
#include "src/npu/timing/report.h"
#include "tests/npu/configs.h"

namespace lw::npu {
namespace {

using testing::HasSubstr;

const char* const kCopy = "ld n0=64 signal=0\nst dram=0x40 n0=64 wait=0\nhalt\n";

// Of one machine; what was made is freed with it.
class CInterface : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(open("mid32"), LOOPWRIGHT_NPU_OK) << error_; }
  void TearDown() override {
    loopwright_npu_report_free(report_);
    loopwright_npu_program_free(program_);
    loopwright_npu_close(npu_);
  }

  int32_t open(const std::string& configuration) {
    loopwright_npu_close(npu_);
    return loopwright_npu_open(configuration.c_str(), &npu_, error_, sizeof error_);
  }
  int32_t assemble(const std::string& text) {
    loopwright_npu_program_free(program_);
    return loopwright_npu_assemble(npu_, text.c_str(), &program_, error_, sizeof error_);
  }
  int32_t time() {
    loopwright_npu_report_free(report_);
    return loopwright_npu_time(npu_, program_, &report_, error_, sizeof error_);
  }
  int32_t execute(const std::vector<loopwright_npu_buffer>& dram, bool races = true) {
    loopwright_npu_report_free(report_);
    return loopwright_npu_execute(npu_, program_, dram.data(), dram.size(), races, &report_, error_,
                                  sizeof error_);
  }

  loopwright_npu* npu_ = nullptr;
  loopwright_npu_program* program_ = nullptr;
  loopwright_npu_report* report_ = nullptr;
  char error_[400] = "";
  uint8_t bytes_[128] = {1, 2, 3};
};

TEST_F(CInterface, OpensAConfigurationByNamePathOrText) {
  const std::string json = loopwright_npu_configuration(npu_);
  EXPECT_EQ(json, print_config(config_of("mid32")));
  EXPECT_EQ(open("\n" + json), LOOPWRIGHT_NPU_OK) << error_;
  EXPECT_EQ(loopwright_npu_configuration(npu_), json);
  EXPECT_EQ(open(LW_SOURCE_DIR "/src/npu/configs/mid32.json"), LOOPWRIGHT_NPU_OK) << error_;
  EXPECT_EQ(loopwright_npu_configuration(npu_), json);
  EXPECT_THAT(loopwright_npu_configurations(), HasSubstr("\nmid32\n"));

  EXPECT_EQ(open("mid23"), LOOPWRIGHT_NPU_BAD_REQUEST);
  EXPECT_EQ(npu_, nullptr);
  EXPECT_THAT(error_, HasSubstr("did you mean 'mid32'?"));
  EXPECT_EQ(open("none.json"), LOOPWRIGHT_NPU_ENVIRONMENT);
  EXPECT_THAT(error_, HasSubstr("cannot read none.json"));
  EXPECT_EQ(open("{\"name\": 3}"), LOOPWRIGHT_NPU_BAD_REQUEST);
  EXPECT_THAT(error_, HasSubstr("the configuration: name: "));
}

TEST_F(CInterface, ReadsAndWritesPrograms) {
  ASSERT_EQ(assemble(kCopy), LOOPWRIGHT_NPU_OK) << error_;
  EXPECT_EQ(loopwright_npu_program_instructions(program_), 3);
  const std::string text = loopwright_npu_program_text(program_);
  EXPECT_EQ(text, print_program(*parse_program(kCopy, "")));
  size_t size = 0;
  const void* const image = loopwright_npu_program_image(program_, &size);
  EXPECT_EQ(std::string(static_cast<const char*>(image), size),
            *make_image(*parse_program(kCopy, "")));
  loopwright_npu_program* again = nullptr;
  ASSERT_EQ(loopwright_npu_decode(npu_, image, size, &again, error_, sizeof error_),
            LOOPWRIGHT_NPU_OK);
  EXPECT_EQ(loopwright_npu_program_text(again), text);
  loopwright_npu_program_free(again);
  EXPECT_EQ(loopwright_npu_decode(npu_, image, size - 1, &again, error_, sizeof error_),
            LOOPWRIGHT_NPU_BAD_REQUEST);
  EXPECT_EQ(again, nullptr);
  EXPECT_EQ(assemble("ld n9=3\n"), LOOPWRIGHT_NPU_BAD_REQUEST);
  EXPECT_THAT(error_, HasSubstr("text:1:4: ld has no field 'n9'; did you mean 'n0'?"));
}

TEST_F(CInterface, RefusesAProgramOfALargerMachine) {
  ASSERT_EQ(assemble("mx.ldw k=32 n=32 wstr=32\n"), LOOPWRIGHT_NPU_OK) << error_;
  size_t size = 0;
  const void* const image = loopwright_npu_program_image(program_, &size);
  ASSERT_EQ(open("edge16"), LOOPWRIGHT_NPU_OK);
  EXPECT_EQ(time(), LOOPWRIGHT_NPU_BAD_REQUEST);
  EXPECT_EQ(report_, nullptr);
  EXPECT_THAT(error_, HasSubstr("k = 32: 1 to 16"));
  loopwright_npu_program* decoded = nullptr;
  EXPECT_EQ(loopwright_npu_decode(npu_, image, size, &decoded, error_, sizeof error_),
            LOOPWRIGHT_NPU_BAD_REQUEST);
}

TEST_F(CInterface, TimesAProgram) {
  ASSERT_EQ(assemble(kCopy), LOOPWRIGHT_NPU_OK) << error_;
  ASSERT_EQ(time(), LOOPWRIGHT_NPU_OK) << error_;
  const Config config = config_of("mid32");
  const Program program = *parse_program(kCopy, "");
  std::vector<Span> spans;
  const Timing timing = *simulate(config, program, {&spans});
  EXPECT_EQ(loopwright_npu_report_cycles(report_), timing.cycles);
  EXPECT_EQ(loopwright_npu_report_ns(report_), timing.ns);
  EXPECT_EQ(loopwright_npu_report_bound(report_), timing.bounds.largest());
  EXPECT_EQ(loopwright_npu_report_limit(report_), limiting_bound(timing.bounds).first);
  EXPECT_EQ(loopwright_npu_report_json(report_), timing_json(config, timing));
  EXPECT_EQ(loopwright_npu_report_text(report_), timing_text(config, timing));
  EXPECT_EQ(loopwright_npu_report_timeline(report_), timeline_json(config, program, spans));
  EXPECT_STREQ(loopwright_npu_report_errors(report_), "");

  ASSERT_EQ(assemble("st n0=64 wait=3\n"), LOOPWRIGHT_NPU_OK);
  EXPECT_EQ(time(), LOOPWRIGHT_NPU_NO_END);
  EXPECT_THAT(error_, HasSubstr("waits for a token of semaphore 3"));
  EXPECT_STREQ(loopwright_npu_report_errors(report_), error_);
}

TEST_F(CInterface, ExecutesAProgram) {
  ASSERT_EQ(assemble(kCopy), LOOPWRIGHT_NPU_OK) << error_;
  ASSERT_EQ(execute({{0, bytes_, 64, 0}, {64, bytes_ + 64, 64, 1}}), LOOPWRIGHT_NPU_OK) << error_;
  EXPECT_EQ(std::memcmp(bytes_, bytes_ + 64, 64), 0);
  EXPECT_GT(loopwright_npu_report_cycles(report_), 0);
  EXPECT_EQ(loopwright_npu_report_overflows(report_), 0);
  EXPECT_EQ(loopwright_npu_report_races(report_), 0);
}

TEST_F(CInterface, TellsWhatIsWrongWithARun) {
  ASSERT_EQ(assemble("ld n0=64\nst dram=64 n0=64\n"), LOOPWRIGHT_NPU_OK) << error_;
  EXPECT_EQ(execute({{0, bytes_, 128, 1}}), LOOPWRIGHT_NPU_RACE);
  EXPECT_EQ(loopwright_npu_report_races(report_), 1);
  EXPECT_THAT(error_, HasSubstr("race: instruction 1 (st dram=0x40 n0=64) reads SPM"));
  EXPECT_EQ(execute({{0, bytes_, 128, 1}}, false), LOOPWRIGHT_NPU_OK) << error_;
  EXPECT_EQ(execute({{0, bytes_, 128, 0}}), LOOPWRIGHT_NPU_BOUNDS);
  EXPECT_THAT(error_, HasSubstr("writes DRAM [64, 128), which is in no buffer that may be"));
  EXPECT_EQ(execute({}), LOOPWRIGHT_NPU_BOUNDS);
  EXPECT_THAT(loopwright_npu_report_errors(report_), HasSubstr("\ninstruction 1 (st "));
  EXPECT_EQ(execute({{0, bytes_, 128, 1}, {100, bytes_, 28, 1}}), LOOPWRIGHT_NPU_BAD_REQUEST);
  EXPECT_THAT(error_, HasSubstr("two buffers of DRAM overlap at address 100"));
  EXPECT_EQ(execute({{UINT64_MAX - 1, bytes_, 128, 1}}), LOOPWRIGHT_NPU_BAD_REQUEST);
  EXPECT_THAT(error_, HasSubstr("ends beyond 2^40"));
  EXPECT_EQ(report_, nullptr);
}

// The copy as a module: argument 0 is what it writes, and it has a workspace that it leaves alone.
std::string copy_module() {
  Module module;
  module.config = config_of("mid32");
  module.dram_bytes = uint64_t{1} << 40;
  module.workspace = {256, 16};
  module.arguments = {{{64, 64}, true}, {{0, 64}, false}};
  module.program = *parse_program(kCopy, "");
  return *make_module(module);
}

int32_t open_module(const std::string& bytes, loopwright_npu_module** module, char (&error)[400]) {
  return loopwright_npu_module_open(bytes.data(), bytes.size(), module, error, sizeof error);
}

TEST_F(CInterface, RunsAModuleOnItsArguments) {
  loopwright_npu_module* module = nullptr;
  ASSERT_EQ(open_module(copy_module(), &module, error_), LOOPWRIGHT_NPU_OK) << error_;
  EXPECT_STREQ(loopwright_npu_configuration(loopwright_npu_module_machine(module)),
               loopwright_npu_configuration(npu_));
  EXPECT_EQ(loopwright_npu_program_text(loopwright_npu_module_program(module)),
            print_program(*parse_program(kCopy, "")));
  ASSERT_EQ(loopwright_npu_module_arguments(module), 2u);
  EXPECT_EQ(loopwright_npu_module_argument_bytes(module, 1), 64u);
  EXPECT_EQ(loopwright_npu_module_argument_bytes(module, 2), 0u);
  EXPECT_EQ(loopwright_npu_module_argument_written(module, 0), 1);
  EXPECT_EQ(loopwright_npu_module_argument_written(module, 1), 0);

  void* const arguments[] = {bytes_ + 64, bytes_};
  ASSERT_EQ(loopwright_npu_module_run(module, arguments, 2, 1, &report_, error_, sizeof error_),
            LOOPWRIGHT_NPU_OK) << error_;
  EXPECT_EQ(std::memcmp(bytes_, bytes_ + 64, 64), 0);
  EXPECT_GT(loopwright_npu_report_cycles(report_), 0);
  bytes_[64] = 9;
  EXPECT_EQ(loopwright_npu_module_run(module, arguments, 2, 0, nullptr, nullptr, 0),
            LOOPWRIGHT_NPU_OK);
  EXPECT_EQ(bytes_[64], 1);
  loopwright_npu_module_close(module);
}

TEST_F(CInterface, TellsWhatIsWrongWithAModule) {
  loopwright_npu_module* module = nullptr;
  const std::string whole = copy_module();
  EXPECT_EQ(open_module(whole.substr(0, whole.size() - 1), &module, error_),
            LOOPWRIGHT_NPU_BAD_REQUEST);
  EXPECT_EQ(module, nullptr);
  EXPECT_STREQ(error_, "NPU module: cut short in its program");
  EXPECT_EQ(open_module("module", &module, error_), LOOPWRIGHT_NPU_BAD_REQUEST);
  EXPECT_EQ(loopwright_npu_module_open(nullptr, 0, &module, error_, sizeof error_),
            LOOPWRIGHT_NPU_BAD_REQUEST);
  EXPECT_STREQ(error_, "bytes is null");

  ASSERT_EQ(open_module(whole, &module, error_), LOOPWRIGHT_NPU_OK) << error_;
  void* arguments[] = {bytes_ + 64, nullptr};
  const auto run = [&](size_t count) {
    return loopwright_npu_module_run(module, arguments, count, 1, nullptr, error_, sizeof error_);
  };
  EXPECT_EQ(run(1), LOOPWRIGHT_NPU_BAD_REQUEST);
  EXPECT_STREQ(error_, "the module has 2 arguments, not 1");
  EXPECT_EQ(run(2), LOOPWRIGHT_NPU_BAD_REQUEST);
  EXPECT_STREQ(error_, "argument 1 is null");
  loopwright_npu_module_close(module);

  Module racing = *read_module(whole);
  racing.program = *parse_program("ld n0=64\nst dram=64 n0=64\n", "");
  ASSERT_EQ(open_module(*make_module(racing), &module, error_), LOOPWRIGHT_NPU_OK) << error_;
  arguments[1] = bytes_;
  EXPECT_EQ(run(2), LOOPWRIGHT_NPU_RACE);
  EXPECT_THAT(error_, HasSubstr("race: instruction 1"));
  loopwright_npu_module_close(module);

  racing.program = *parse_program("mx.ldw k=32 n=32 wstr=32\n", "");
  racing.config = config_of("edge16");
  EXPECT_EQ(open_module(*make_module(racing), &module, error_), LOOPWRIGHT_NPU_BAD_REQUEST);
  EXPECT_THAT(error_, HasSubstr("k = 32: 1 to 16"));
}

TEST_F(CInterface, TakesNoNullAndCutsItsMessages) {
  char small[8];
  loopwright_npu_close(npu_);
  EXPECT_EQ(loopwright_npu_open("mid23", &npu_, small, sizeof small), LOOPWRIGHT_NPU_BAD_REQUEST);
  EXPECT_STREQ(small, "no conf");
  EXPECT_EQ(loopwright_npu_open("mid23", &npu_, nullptr, 0), LOOPWRIGHT_NPU_BAD_REQUEST);
  EXPECT_EQ(loopwright_npu_open("mid32", nullptr, error_, sizeof error_),
            LOOPWRIGHT_NPU_BAD_REQUEST);
  EXPECT_EQ(loopwright_npu_open(nullptr, &npu_, error_, sizeof error_), LOOPWRIGHT_NPU_BAD_REQUEST);
  EXPECT_EQ(time(), LOOPWRIGHT_NPU_BAD_REQUEST);
  EXPECT_STREQ(error_, "npu is null");
  ASSERT_EQ(open("mid32"), LOOPWRIGHT_NPU_OK);
  EXPECT_EQ(execute({}), LOOPWRIGHT_NPU_BAD_REQUEST);
  EXPECT_STREQ(error_, "program is null");
  ASSERT_EQ(assemble(kCopy), LOOPWRIGHT_NPU_OK);
  EXPECT_EQ(execute({{0, nullptr, 64, 1}}), LOOPWRIGHT_NPU_BAD_REQUEST);
  EXPECT_STREQ(error_, "a buffer is null");
}

}  // namespace
}  // namespace lw::npu
