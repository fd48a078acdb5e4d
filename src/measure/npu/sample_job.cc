#include "src/measure/npu/sample_job.h"

#include <algorithm>
#include <bit>

#include "schedules/targets/npu/npu_target.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/base/rng.h"
#include "src/measure/npu/npu_device.h"
#include "src/npu/function/function.h"
#include "src/npu/module.h"

namespace lw {
namespace {

int64_t up(int64_t value, int64_t of) { return (value + of - 1) / of * of; }

// D[m, n] = A[m, k] . B[k, n]: both loaded, one fold, stored.
npu::Program make_program(const npu::Config& config, npu::Dtype dtype, int64_t m, int64_t row_bytes,
                          const npu::Module& module) {
  const int64_t k = config.align.k, n = config.align.n;
  const int64_t a_row = up(k * npu::size_of(dtype), config.spm.align);
  const int64_t b_row = up(row_bytes, config.spm.align);
  const auto load = [&](int argument, int64_t at, int64_t bytes, int64_t rows, int64_t row) {
    npu::Ld ld;
    ld.dram = module.arguments[argument].range.address;
    ld.loc = static_cast<uint32_t>(at);
    ld.n0 = static_cast<uint16_t>(bytes);
    ld.n1 = static_cast<uint16_t>(rows);
    ld.dstr1 = static_cast<uint32_t>(bytes);
    ld.lstr1 = static_cast<uint32_t>(row);
    npu::Instruction one{ld};
    one.signal[0] = static_cast<uint8_t>(argument);
    return one;
  };
  npu::MxLdw ldw;
  ldw.w = static_cast<uint32_t>(m * a_row);
  ldw.k = static_cast<uint8_t>(k);
  ldw.n = static_cast<uint8_t>(n);
  ldw.wstr = static_cast<uint32_t>(b_row);
  npu::MxMm mm;
  mm.m = static_cast<uint16_t>(m);
  mm.k = ldw.k;
  mm.n = ldw.n;
  mm.astr1 = static_cast<uint32_t>(a_row);
  mm.accstr = static_cast<uint16_t>(up(n, config.acc.align));
  mm.swap = true;
  npu::St st;
  st.dram = module.arguments[2].range.address;
  st.space = npu::Space::kAcc;
  st.n0 = static_cast<uint16_t>(4 * n);
  st.n1 = static_cast<uint16_t>(m);
  st.dstr1 = static_cast<uint32_t>(4 * n);
  st.lstr1 = mm.accstr;
  npu::Program program = {load(0, 0, k * npu::size_of(dtype), m, a_row),
                          load(1, m * a_row, row_bytes, k, b_row), {ldw}, {mm}, {st},
                          {npu::Halt()}};
  program[2].dtype = program[3].dtype = dtype;
  program[2].wait[0] = 1;
  program[3].wait[0] = 0;
  program[3].signal[0] = 2;
  program[4].wait[0] = 2;
  return program;
}

// Whole numbers that both types have.
std::string numbers(npu::Dtype dtype, int64_t count, Rng& rng) {
  std::string bytes;
  for (int64_t i = 0; i < count; ++i) {
    const int value = static_cast<int>(rng.below(15)) - 7;
    if (dtype == npu::Dtype::kI8) {
      bytes.push_back(static_cast<char>(value));
      continue;
    }
    const uint32_t bits = std::bit_cast<uint32_t>(static_cast<float>(value)) >> 16;
    bytes.push_back(static_cast<char>(bits));
    bytes.push_back(static_cast<char>(bits >> 8));
  }
  return bytes;
}

absl::StatusOr<std::string> computed(const npu::Module& module, std::string a, std::string b) {
  std::string d(module.arguments[2].range.bytes, '\0');
  std::vector<npu::Buffer> dram;
  std::string* const contents[] = {&a, &b, &d};
  for (int i = 0; i < 3; ++i) {
    uint8_t* const bytes = reinterpret_cast<uint8_t*>(contents[i]->data());
    dram.push_back({module.arguments[i].range.address, {bytes, contents[i]->size()}, i == 2});
  }
  ASSIGN_OR_RETURN(npu::Memory memory, npu::make_memory(module.config, std::move(dram)));
  ASSIGN_OR_RETURN(const npu::FunctionReport report,
                   npu::execute(module.config, module.program, &memory));
  CHECK(report.status == npu::FunctionStatus::kOk);
  return d;
}

}  // namespace

absl::StatusOr<NpuSampleJob> npu_sample_job(const Target& target, uint64_t seed) {
  if (target.architecture != kNpuArchitecture) {
    return absl::InvalidArgumentError(
        concat(target.name, " is a target for ", target.architecture, ", not for npu"));
  }
  npu::Module module;
  module.config = npu_config(target);
  const npu::Config& config = module.config;
  const npu::Dtype dtype = config.mx.dtypes[0];
  constexpr int64_t kRows = 8;
  const int64_t size = npu::size_of(dtype), k = config.align.k, n = config.align.n;
  NpuSampleJob job;
  const int64_t bytes[] = {kRows * k * size, k * n * size, kRows * n * 4};
  std::copy(std::begin(bytes), std::end(bytes), job.bytes);
  for (int i = 0; i < 3; ++i) {
    module.arguments.push_back({{module.dram_bytes, static_cast<uint64_t>(bytes[i])}, i == 2});
    module.dram_bytes += static_cast<uint64_t>(up(bytes[i], 4096));
  }
  module.program = make_program(config, dtype, kRows, n * size, module);
  job.artifact.architecture = kNpuArchitecture;
  ASSIGN_OR_RETURN(job.artifact.bytes, npu::make_module(module));
  Rng rng(seed);
  job.a = numbers(dtype, kRows * k, rng);
  job.b = numbers(dtype, k * n, rng);
  ASSIGN_OR_RETURN(job.d, computed(module, job.a, job.b));
  return job;
}

}  // namespace lw
