// One call of a kernel, as the simulator of its machine tells it. A value.
#pragma once

#include <string>
#include <vector>

namespace lw {

struct Simulation {
  std::string unit;                        // of all times below but `us`: "cycles"
  double time = 0, us = 0;                 // of the call

  // What the program's instructions cannot be below, whatever their order.
  struct Limit {
    std::string name;                      // "compute", "dma"
    double time = 0;
  };
  std::vector<Limit> limits;               // largest first; never empty
  double efficiency() const { return time > 0 ? limits.front().time / time : 0; }

  // What an engine does at a time: one of `states`, by its place there.
  struct Interval {
    double begin = 0, end = 0;
    int state = 0;
  };
  struct Engine {
    std::string name;                      // "LD"
    std::vector<Interval> intervals;       // in order, none overlaps another; idle between them
    double busy = 0;                       // of the call's time, the share in which it works
    std::vector<double> shares;            // the same of each state
  };
  std::vector<std::string> states;         // "busy", "waits for a token"
  std::vector<Engine> engines;
};

}  // namespace lw
