// Machines that were compared at their tuned best, and their page.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace lw {

struct ExploredMachine {
  std::string name;
  std::vector<std::string> values;         // of the fields that vary, in their order
  std::vector<std::pair<const char*, double>> area;  // figures of what silicon it takes
  double time_us = 0;                      // of the workloads together, each at its best; 0: some
                                           // workload has none
  std::vector<double> each_us;             // of each workload; 0: none
  std::string why;                         // it cannot be, or what its workloads came to
  bool on_front = false;
};

// Marks those that no other is better than: at least as fast, with no figure of area larger, and
// better in one of these.
void mark_front(std::vector<ExploredMachine>& machines);

// One page without external resources: a chart for each figure of area, and the table. `fields`:
// what varies; `what`: the workloads, in words.
std::string explored_page(const std::vector<ExploredMachine>& machines,
                          const std::vector<std::string>& fields, const std::string& what);

}  // namespace lw
