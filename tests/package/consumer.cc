// Loads an operator of the library, prints its identity and the host, as a user's program would.
#include <cstdio>

#include "schedules/target.h"
#include "src/expr/interpret.h"
#include "src/expr/text.h"

int main() {
  const auto program = lw::load_workload({"matmul", "M=128", "N=96", "K=64"});
  const auto host = lw::find_target("host");
  if (!program.ok() || !host.ok()) return 1;
  const double flops = lw::count_flops(*program).useful;
  std::printf("%s: %.0f flops, %d-byte vectors\n", lw::workload_id(*program).c_str(), flops,
              host->vector_bytes);
  return flops == 2.0 * 128 * 96 * 64 ? 0 : 1;
}
