#include "tests/support/store_fixture.h"

#include "schedules/targets/cpu/cpu_target.h"
#include "src/base/hash.h"
#include "src/expr/expr.h"
#include "src/expr/language/text.h"
#include "tuner_db/workload_row.h"

namespace lw {

WorkloadRow make_workload(int extent) {
  const absl::StatusOr<Program> program = parse_program(
      absl::StrCat("op matmul() {\n  in A: f32[", extent, ", 64]\n  in B: f32[64, 64]\n  out C[i: ",
                   extent, ", j: 64] = sum[k: 64](A[i, k] * B[k, j])\n}\n"), "make_workload");
  CHECK(program.ok());
  return workload_row(*program, absl::StrCat("matmul M=", extent));
}

Target make_target(const std::string& name) {
  Target target;
  target.name = name;
  target.architecture = "x86_64";
  target.features = {"avx2", "fma", "sse2"};
  target.ghz = 3.1;
  target.caches = {{"L1", 32768, false, 64, 32, 5}, {"DRAM", 0, true, 8, 4, 300}};
  target.atoms = {{"fma_f32", Type::kF32, Type::kF32, Type::kF32, 8, 1, 2, 4}};
  CpuTarget part;
  part.triple = "x86_64-unknown-linux-gnu";
  part.cpu = "x86-64-v3";
  part.vector_bytes = 32;
  part.fma = true;
  set_cpu(&target, part);
  return target;
}

Key make_key(const WorkloadRow& workload, const Target& target) {
  Key key;
  key.workload = workload.id;
  key.target = sha256(to_text(target));
  key.backend = "llvm 19.1.7 r1";
  key.threads = 2;
  return key;
}

Key put_key(Store& store, int extent, const std::string& target) {
  const WorkloadRow workload = make_workload(extent);
  const Key key = make_key(workload, make_target(target));
  CHECK(store.put_workload(workload).ok());
  CHECK(store.put_target(key.target, make_target(target)).ok());
  return key;
}

}  // namespace lw
