// Quotients and remainders by constants, as kernels are printed with, on the PTX interpreter.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "src/build/simt/ptx/ptx_values.h"
#include "tests/ptx/ptx_text.h"

namespace lw {
namespace {

// Around multiples, the first and the last that `most` leaves, and between.
std::vector<uint32_t> dividends(int64_t by, int64_t most) {
  std::vector<uint32_t> all;
  for (const int64_t part : {int64_t{0}, most / 3, most / 2, most}) {
    const int64_t multiple = part / by * by;
    for (const int64_t a : {multiple - 1, multiple, multiple + 1, part}) {
      all.push_back(static_cast<uint32_t>(std::clamp<int64_t>(a, 0, most)));
    }
  }
  return all;
}

TEST(Quotients, ByConstants) {
  for (const int64_t most : {int64_t{INT32_MAX}, int64_t{UINT32_MAX}}) {
    for (const int64_t by : {1, 2, 3, 5, 6, 7, 10, 12, 25, 27, 64, 96, 127, 641, 1000, 65537,
                             1 << 20, 1000003, 715827883, (1 << 30) - 1, 1 << 30, INT32_MAX - 1,
                             INT32_MAX}) {
      PtxCode code;
      const std::string q = ptx_quotient(code, "%a", most, by);
      const std::string r = ptx_remainder(code, "%a", most, by);
      const std::string text = code.declarations() + code.leave();
      const auto expect = [&](const std::string& result, auto&& want) {
        expect_instruction<uint32_t, uint32_t, uint32_t, uint32_t>(
            concat(text, "mov.b32 %d, ", result, ";"), want, dividends(by, most), {0}, {0});
      };
      const auto divisor = static_cast<uint32_t>(by);
      expect(q, [&](uint32_t a, uint32_t, uint32_t) { return a / divisor; });
      expect(r, [&](uint32_t a, uint32_t, uint32_t) { return a % divisor; });
      if (most == INT32_MAX) EXPECT_EQ(text.find("div"), std::string::npos) << text;
    }
  }
}

}  // namespace
}  // namespace lw
