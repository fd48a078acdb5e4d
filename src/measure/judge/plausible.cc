#include "src/measure/judge/plausible.h"

#include <time.h>

#include <algorithm>

#include "absl/strings/str_format.h"
#include "schedules/targets/target.h"
#include "src/expr/expr.h"
#include "src/expr/work/work.h"

namespace lw {
namespace {

constexpr double kFastestGhz = 8;
constexpr double kUnknownRates = 2;
// Generous: the alarm costs a retry of a good candidate, and the lie it looks for is a large one.
constexpr double kCostFactor = 2, kCostUs = 300;

}  // namespace

double impossible_below_us(const Program& program, const Target& target, int threads) {
  double rate = 0;  // operations a cycle
  for (const Atom& atom : target.atoms) {
    rate = std::max(rate, 2 * products_of(atom) * atom.per_cycle);
  }
  if (rate <= 0) return 0;
  double operations = 0;
  for (const OperationCount& o : count_work(program).operations) {
    const double lanes = is_float(o.type) ? 1 : size_of(o.type) / 4.0;
    operations += o.count * lanes * (o.adds ? 2 : 1);
  }
  return operations / (rate * kUnknownRates * kFastestGhz * 1e3 * threads);
}

double impossible_sample(const std::vector<double>& samples_us, double least_us) {
  if (samples_us.empty()) return 0;
  const double least = *std::min_element(samples_us.begin(), samples_us.end());
  return least < least_us ? least : 0;
}

std::string describe_impossible(double us, double least_us) {
  return absl::StrFormat("%s: %.3g us a call, of which this processor needs at least %.3g us",
                         std::string(kImpossibleTime), us, least_us);
}

bool fits_processor_time(double claimed_us, double cpu_us, int threads) {
  return cpu_us <= threads * (kCostFactor * claimed_us + kCostUs);
}

double processor_us(pid_t pid) {
  clockid_t clock;
  timespec t{};
  if (pid <= 0 || clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &t) != 0) return -1;
  return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) * 1e-3;
}

}  // namespace lw
