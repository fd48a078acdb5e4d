// libFuzzer target for configurations of the simulated NPU (cmake/fuzz.cmake): any bytes are
// refused with a reason, or read as a machine that prints back to itself and runs a short program
// (or says what of it does not fit).
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/strings/match.h"
#include "fuzz/npu_programs.h"

namespace lw::npu {
namespace {

int64_t up(int64_t value, int64_t of) { return (value + of - 1) / of * of; }

// An instruction for each engine, as small as the machine has them.
Program short_program(const Config& config) {
  Ld ld;
  ld.n0 = 64;
  St st;
  st.n0 = 64;
  MxLdw ldw;
  ldw.k = static_cast<uint8_t>(config.align.k);
  ldw.n = static_cast<uint8_t>(config.align.n);
  ldw.wstr = static_cast<uint32_t>(up(2 * config.align.n, config.spm.align));
  MxMm mm;
  mm.m = 1;
  mm.k = ldw.k;
  mm.n = ldw.n;
  mm.swap = true;
  VeUn un;
  un.n0 = static_cast<uint16_t>(config.ve.lanes);
  un.n1 = 1;
  Program program = {{ld}, {ldw}, {mm}, {un}, {st}, {Halt()}};
  program[1].dtype = program[2].dtype = config.mx.dtypes[0];
  program[3].dtype = Dtype::kI32;
  program[0].signal[0] = program[4].wait[0] = 0;
  return program;
}

}  // namespace
}  // namespace lw::npu

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lw::npu;
  const absl::StatusOr<Config> config =
      parse_config(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz.json");
  if (!config.ok()) {
    CHECK(absl::StartsWith(config.status().message(), "fuzz.json: "));
    return 0;
  }
  CHECK(check_config(*config).ok());
  const std::string text = print_config(*config);
  const absl::StatusOr<Config> again = parse_config(text, "printed");
  CHECK(again.ok() && print_config(*again) == text);
  CHECK(peak_bytes_per_cycle(*config) > 0);
  exercise(*config, short_program(*config));
  return 0;
}
