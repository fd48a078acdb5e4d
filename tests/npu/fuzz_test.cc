// The fuzz targets of configurations, the assembler and images on some thousand mutations of real
// ones: what every build can check without a fuzzer. (Modules': module_test.cc.)
#include <algorithm>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "src/base/rng.h"
#include "tests/npu/configs.h"
#include "tests/npu/random_program.h"

#define LLVMFuzzerTestOneInput feed_config
#include "fuzz/npu_config_fuzz.cc"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput feed_text
#include "fuzz/npu_text_fuzz.cc"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput feed_image
#include "fuzz/npu_image_fuzz.cc"
#undef LLVMFuzzerTestOneInput

namespace lw::npu {
namespace {

using Json = nlohmann::ordered_json;

void feed(int (*target)(const uint8_t*, size_t), const std::string& bytes) {
  target(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
}

std::string mutated(std::string bytes, Rng& rng) {
  static const std::vector<std::string> pieces = {"-1", "0", "1e308", "99999999999999999999", "0x",
                                                  "=", ",", "\n", "{", "}", "[", "\"", "wait=0",
                                                  " k=32", "nan", "\xff"};
  for (int64_t n = 1 + rng.below(4); n > 0 && !bytes.empty(); --n) {
    const size_t at = static_cast<size_t>(rng.below(static_cast<int64_t>(bytes.size())));
    const size_t length = 1 + static_cast<size_t>(rng.below(8));
    switch (rng.below(5)) {
      case 0: bytes[at] = static_cast<char>(rng.below(256)); break;
      case 1: bytes[at] = static_cast<char>(bytes[at] ^ 1 << rng.below(8)); break;
      case 2: bytes.erase(at, length); break;
      case 3: bytes.insert(at, bytes.substr(at, length)); break;
      default: bytes.replace(at, length, pieces[rng.below(static_cast<int64_t>(pieces.size()))]);
    }
  }
  return bytes;
}

TEST(NpuFuzz, Configurations) {
  Rng rng(1);
  const std::vector<std::string> names = config_names();
  for (int round = 0; round < 2000; ++round) {
    const std::string& name = names[rng.below(static_cast<int64_t>(names.size()))];
    feed(feed_config, mutated(print_config(config_of(name)), rng));
  }
}

TEST(NpuFuzz, Assembler) {
  Rng rng(2);
  const Config config = config_of("mid32");
  for (int round = 0; round < 2000; ++round) {
    feed(feed_text, mutated(print_program(RandomProgram(config, &rng).make(3)), rng));
  }
}

TEST(NpuFuzz, Images) {
  Rng rng(3);
  const Config config = config_of("mid32");
  for (int round = 0; round < 2000; ++round) {
    feed(feed_image, mutated(*make_image(RandomProgram(config, &rng).make(3)), rng));
  }
}

// Each number of a configuration at the least and the most that it may be, and just beyond: what is
// beyond is refused by its name, what is accepted runs.
TEST(NpuFuzz, EveryFieldAtItsEnds) {
  const Json usual = Json::parse(print_config(config_of("mid32")));
  int fields = 0, accepted = 0;
  Config config = config_of("mid32");
  visit_values(config, [&](const std::string& path, const FieldRule& rule, const auto& value) {
    using T = std::decay_t<decltype(value)>;
    if constexpr (std::is_same_v<T, int64_t> || std::is_same_v<T, double>) {
      ++fields;
      std::string pointer = "/" + path;
      std::replace(pointer.begin(), pointer.end(), '.', '/');
      const auto with = [&](const Json& number) {
        Json json = usual;
        json[Json::json_pointer(pointer)] = number;
        return json.dump();
      };
      for (const double end : {rule.least, rule.most}) {
        const std::string text = with(end);
        feed(feed_config, text);
        accepted += parse_config(text, "f").ok();
      }
      const double beyond[] = {rule.least - 1, rule.most + 1, -1e300, 1e300};
      for (const double number : beyond) {
        const absl::Status status = parse_config(with(number), "f").status();
        EXPECT_TRUE(absl::StartsWith(status.message(), "f: " + path + ": ")) << status;
        EXPECT_TRUE(absl::StrContains(status.message(), " from ")) << status;
      }
      const absl::Status missing = [&] {
        Json json = usual;
        const Json::json_pointer at(pointer);
        json[at.parent_pointer()].erase(at.back());
        return parse_config(json.dump(), "f").status();
      }();
      EXPECT_TRUE(absl::StartsWith(missing.message(), "f: " + path + ": missing (")) << missing;
    }
  });
  EXPECT_GE(fields, 50);
  EXPECT_GT(accepted, fields);
}

}  // namespace
}  // namespace lw::npu
