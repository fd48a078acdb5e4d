// What held while a candidate was measured: one JSON object that its measurement keeps. It is
// stored, so a member that is there stays what it is. Written and read here. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/measure/machine/limits.h"
#include "tuner_db/key_terms.h"

namespace lw {

struct Environment {
  int threads = 1;
  std::string emulator, simulator, board;  // all "": it ran on this machine, of which:
  Cache cache = Cache::kWarm;
  std::vector<int> cpus;                   // that measured
  bool parted = false;                     // others built meanwhile
  double timer_ns = 0;                     // resolution
  std::string hygiene;                     // members: Hygiene::json(), Hygiene::constant_json()
  std::string isolation;                   // an object: Isolation::json(); of a simulator's too
  std::vector<std::pair<std::string, double>> counters;  // of a simulator or a board

  std::string oracle;                      // why an oracle is missing; "": none is
  std::string error;                       // an object: error_json(); "": every element is equal
  std::optional<Limits> limits;            // measured beside a finalist
};

std::string to_json(const Environment& environment);
// Its `error`, `limits` and `counters`: what is asked of it again. Nothing of a text that is none, and no
// limits of one from before instructions were measured, so that they are measured again.
Environment parse_environment(std::string_view text);

}  // namespace lw
