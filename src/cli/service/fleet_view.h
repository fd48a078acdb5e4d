// The fleet as text for a terminal. Pure functions: the same snapshot and size give the same text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "loopwright/v1/fleet.pb.h"
#include "loopwright/v1/study.pb.h"

namespace lw {

struct FleetSnapshot {
  std::string server;                      // its address
  int64_t now_ms = 0;
  loopwright::v1::Fleet fleet;
  std::vector<loopwright::v1::DeviceStatus> devices;
  std::vector<loopwright::v1::Study> studies;
};

struct Screen {
  int width = 0, height = 0;               // 0: as long as it takes
  bool color = false;
};

// Lines without line ends, none wider than the screen and no more than it has. Control characters
// of names are shown as '?', so that a name cannot steer the terminal.
std::vector<std::string> fleet_lines(const FleetSnapshot& snapshot, const Screen& screen);

}  // namespace lw
