// The program of a group, cut where its items may have to meet. Internal to src/lower/simt.
#pragma once

#include <vector>

#include "src/lower/simt/footprint.h"

namespace lw::lowering {

// A piece of a list of statements, what touches no memory that items share left out.
struct Section {
  enum class Kind { kAccess, kBranch, kLoop, kBarrier } kind = Kind::kAccess;
  size_t at = 0;                           // of its first statement; a barrier is in front of that
  int access = -1;                         // kAccess: number of its footprint
  int symbol = -1;                         // kLoop: the iteration; `other`: another one of them
  int other = -1;
  int64_t count = 1;
  bool stays = false;                      // kBarrier: the program has it already, a kLanded
  bool apart = false;                      // kBranch: items may take different sides
  std::vector<std::pair<int, Interval>> within = {};  // kBranch: of loops' symbols, in the body
  std::vector<Section> body = {}, otherwise = {};  // kLoop: body; kBranch: both
};

struct Group {
  Symbols symbols;
  std::vector<Footprint> accesses;         // of all items, in program order
  std::vector<Section> sections;
};

// Of a parallel loop of several items, in which no kBarrier stands.
Group sections_of(const Kernel& kernel, const Stmt& loop);

}  // namespace lw::lowering
