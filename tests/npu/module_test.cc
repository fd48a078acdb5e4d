// Modules as bytes: there and back, and what is refused, by the name of the part.
#include "src/npu/module.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/base/rng.h"
#include "src/npu/isa/encode.h"
#include "src/npu/isa/text.h"
#include "tests/npu/configs.h"
#include "tests/npu/random_program.h"

#define LLVMFuzzerTestOneInput feed_module
#include "fuzz/module_fuzz.cc"
#undef LLVMFuzzerTestOneInput

namespace lw::npu {
namespace {

using testing::HasSubstr;

Module module_of(const std::string& config = "edge16") {
  Module module;
  module.config = config_of(config);
  module.dram_bytes = 8192;
  module.workspace = {4096, 1000};
  module.arguments = {{{64, 128}, false}, {{0, 64}, false}, {{6000, 2192}, true}};
  Rng rng(5);
  module.program = RandomProgram(module.config, &rng).make(20);
  return module;
}

std::string reading(const Module& module) {
  const absl::StatusOr<std::string> bytes = make_module(module);
  return bytes.ok() ? "accepted" : std::string(bytes.status().message());
}

std::string reading(const std::string& bytes) {
  const absl::StatusOr<Module> module = read_module(bytes);
  return module.ok() ? "accepted" : std::string(module.status().message());
}

TEST(ModuleBytes, GoThereAndBack) {
  for (const char* config : {"edge16", "mid32", "big128", "onnxim128_bf16"}) {
    const Module module = module_of(config);
    const absl::StatusOr<std::string> bytes = make_module(module);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    const absl::StatusOr<Module> back = read_module(*bytes);
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(print_config(back->config), print_config(module.config));
    EXPECT_EQ(print_program(back->program), print_program(module.program));
    EXPECT_EQ(back->dram_bytes, 8192u);
    EXPECT_EQ(back->workspace.address, 4096u);
    ASSERT_EQ(back->arguments.size(), 3u);
    EXPECT_EQ(back->arguments[2].range.bytes, 2192u);
    EXPECT_TRUE(back->arguments[2].written);
    EXPECT_FALSE(back->arguments[0].written);
    EXPECT_EQ(*make_module(*back), *bytes);
  }
}

// By hand, from module.h alone: what is stored does not move.
TEST(ModuleBytes, LieWhereTheyAreDocumented) {
  Module module;
  module.config = config_of("edge16");
  module.dram_bytes = 0x1020;
  module.workspace = {0x1000, 0x20};
  module.arguments = {{{0x40, 7}, true}};
  const auto number = [](uint64_t value) {
    std::string bytes;
    for (int i = 0; i < 8; ++i) bytes += static_cast<char>(value >> (8 * i));
    return bytes;
  };
  const std::string config = print_config(module.config), image = *make_image({});
  EXPECT_EQ(*make_module(module),
            std::string("LWNPUM\1\0", 8) + number(0x1020) + number(0x1000) + number(0x20) +
                number(1) + number(0x40) + number(7) + number(1) + number(config.size()) + config +
                number(image.size()) + image);
}

TEST(ModuleLayout, IsRefusedByTheNameOfWhatIsWrong) {
  const Module good = module_of();
  EXPECT_EQ(reading(good), "accepted");
  Module bad = good;
  bad.workspace = {6100, 4};
  EXPECT_EQ(reading(bad), "NPU module: argument 2 at [6000, 8192) overlaps the workspace at "
                          "[6100, 6104)");
  bad = good;
  bad.arguments[1].range = {191, 2};
  EXPECT_EQ(reading(bad), "NPU module: argument 0 at [64, 192) overlaps argument 1 at [191, 193)");
  bad = good;
  bad.arguments[2].range.bytes = 2193;
  EXPECT_EQ(reading(bad), "NPU module: argument 2, 2193 bytes at 6000, lies beyond the 8192 bytes "
                          "of DRAM");
  bad.arguments[2].range.bytes = ~uint64_t{0};
  EXPECT_THAT(reading(bad), HasSubstr("argument 2, 18446744073709551615 bytes at 6000, lies"));
  bad = good;
  bad.dram_bytes = (uint64_t{1} << 40) + 1;
  EXPECT_EQ(reading(bad), "NPU module: 1099511627777 bytes of DRAM are more than 2^40");
  bad = good;
  bad.arguments[0].range.bytes = 0;        // is nowhere
  bad.workspace = {5000, 0};
  EXPECT_EQ(reading(bad), "accepted");
  bad = good;
  bad.config.mx.rows = 0;
  EXPECT_THAT(reading(bad), HasSubstr("NPU module: configuration: mx.R"));
  bad = good;
  VeReq wide;
  wide.rows = 5000;
  bad.program = {{wide}};
  EXPECT_THAT(reading(bad), HasSubstr("NPU module: program: instruction 0 (ve.req): rows = 5000"));
}

TEST(ModuleBytes, AreRefusedByTheNameOfThePart) {
  const std::string good = *make_module(module_of());
  const size_t config = good.find('{'), image = good.find("LWNPU", 8);
  EXPECT_EQ(reading(std::string("LWNPU\0\1\0", 8)), "no module of a program for the NPU");
  EXPECT_EQ(reading(std::string()), "no module of a program for the NPU");
  std::string bytes = good;
  bytes[6] = 2;
  EXPECT_EQ(reading(bytes), "NPU module: version 2; this program reads version 1");
  bytes = good;
  bytes[40 + 16] = 3;
  EXPECT_EQ(reading(bytes), "NPU module: argument 0: written is 0 or 1, not 3");
  bytes = good;
  bytes[39] = 1;
  EXPECT_THAT(reading(bytes), HasSubstr("NPU module: it cannot have 72057594037927939 arguments"));
  bytes = good;
  bytes[config] = '[';
  EXPECT_THAT(reading(bytes), HasSubstr("NPU module: configuration: not JSON"));
  bytes = good;
  bytes[bytes.find('\n', config)] = ' ';
  EXPECT_EQ(reading(bytes), "NPU module: configuration: not as print_config() writes it");
  bytes = good;
  bytes[image + 16] = 62;
  EXPECT_THAT(reading(bytes), HasSubstr("NPU module: program: word 0: no instruction has op 62"));
  EXPECT_EQ(reading(good + "x"), "NPU module: 1 bytes behind its end");
  const std::pair<size_t, const char*> cuts[] = {
      {12, "dram_bytes"}, {30, "workspace"}, {41 + 40, "arguments"}, {config + 9, "configuration"},
      {image - 1, "program"}, {good.size() - 1, "program"}};
  for (const auto& [length, part] : cuts) {
    EXPECT_EQ(reading(good.substr(0, length)), std::string("NPU module: cut short in its ") + part)
        << length;
  }
  for (size_t length = 0; length < good.size(); ++length) {
    EXPECT_NE(reading(good.substr(0, length)), "accepted") << length;
  }
}

TEST(ModuleBytes, DoNoHarmWhateverTheyAre) {
  const std::string good = *make_module(module_of());
  Rng rng(3);
  for (int round = 0; round < 4000; ++round) {
    std::string bytes = good;
    for (int64_t n = 1 + rng.below(4); n > 0; --n) {
      const size_t at = static_cast<size_t>(rng.below(bytes.size()));
      const size_t length = 1 + static_cast<size_t>(rng.below(8));
      switch (rng.below(4)) {
        case 0: bytes[at] = static_cast<char>(rng.below(256)); break;
        case 1: bytes[at] ^= static_cast<char>(1 << rng.below(8)); break;
        case 2: bytes.erase(at, length); break;
        default: bytes.insert(at, bytes.substr(at, length));
      }
    }
    feed_module(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  }
}

}  // namespace
}  // namespace lw::npu
