// Special registers: their names and their values.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "src/build/simt/ptx/interpreter/interpret_code.h"
#include "src/build/simt/ptx/interpreter/interpret_machine.h"

namespace lw::ptx_interpreter {
namespace {

struct SpecialName {
  std::string_view name;
  Special special;
  bool vector;  // .x .y .z
};
constexpr SpecialName kSpecialNames[] = {{"%tid", Special::kTid, true},
                                         {"%ntid", Special::kNtid, true},
                                         {"%ctaid", Special::kCtaid, true},
                                         {"%nctaid", Special::kNctaid, true},
                                         {"%laneid", Special::kLane, false},
                                         {"%warpid", Special::kWarp, false},
                                         {"%nwarpid", Special::kWarps, false},
                                         {"%lanemask_eq", Special::kMaskEq, false},
                                         {"%lanemask_lt", Special::kMaskLt, false},
                                         {"%lanemask_le", Special::kMaskLe, false},
                                         {"%lanemask_gt", Special::kMaskGt, false},
                                         {"%lanemask_ge", Special::kMaskGe, false},
                                         {"%clusterid", Special::kClusterId, true},
                                         {"%nclusterid", Special::kClusters, true},
                                         {"%cluster_ctaid", Special::kClusterCta, true},
                                         {"%cluster_nctaid", Special::kClusterCtas, true},
                                         {"%cluster_ctarank", Special::kClusterRank, false},
                                         {"%cluster_nctarank", Special::kClusterSize, false},
                                         {"%dynamic_smem_size", Special::kDynamicShared, false}};

}  // namespace

std::optional<Slot> special_slot(std::string_view name, const Program& program) {
  const bool of_cluster = name.find("cluster") != std::string_view::npos;
  if (of_cluster && (program.version < 78 || !program.target_at_least(90))) return std::nullopt;
  for (const SpecialName& s : kSpecialNames) {
    if (name.substr(0, s.name.size()) != s.name) continue;
    const std::string_view rest = name.substr(s.name.size());
    Slot slot;
    slot.kind = Slot::Kind::kSpecial;
    slot.special = s.special;
    slot.name = std::string(name);
    slot.type = PtxType::kU32;
    if (s.vector) {
      if (rest.size() != 2 || rest[0] != '.' || rest[1] < 'x' || rest[1] > 'z') continue;
      slot.dimension = rest[1] - 'x';
    } else if (!rest.empty()) {
      continue;
    }
    return slot;
  }
  return std::nullopt;
}

uint32_t special_value(const Slot& slot, const Warp& warp, int lane) {
  const Block& block = *warp.block;
  const PtxLaunch& launch = *warp.machine->launch;
  const int d = slot.dimension;
  const int64_t thread = warp.index * 32 + lane;
  const auto& items = launch.items;
  switch (slot.special) {
    case Special::kTid:
      return static_cast<uint32_t>(d == 0   ? thread % items[0]
                                   : d == 1 ? thread / items[0] % items[1]
                                            : thread / items[0] / items[1]);
    case Special::kNtid: return static_cast<uint32_t>(items[d]);
    case Special::kCtaid: return static_cast<uint32_t>(block.at[d]);
    case Special::kNctaid: return static_cast<uint32_t>(launch.groups[d]);
    case Special::kLane: return static_cast<uint32_t>(lane);
    case Special::kWarp: return static_cast<uint32_t>(warp.index);
    case Special::kWarps: return static_cast<uint32_t>(block.warps.size());
    case Special::kMaskEq: return 1u << lane;
    case Special::kMaskLt: return (1u << lane) - 1;
    case Special::kMaskLe: return (2u << lane) - 1;
    case Special::kMaskGt: return ~((2u << lane) - 1);
    case Special::kMaskGe: return ~((1u << lane) - 1);
    case Special::kClusterId: return static_cast<uint32_t>(block.at[d] / launch.cluster[d]);
    case Special::kClusters: return static_cast<uint32_t>(launch.groups[d] / launch.cluster[d]);
    case Special::kClusterCta: return static_cast<uint32_t>(block.at[d] % launch.cluster[d]);
    case Special::kClusterCtas: return static_cast<uint32_t>(launch.cluster[d]);
    case Special::kClusterRank: return static_cast<uint32_t>(block.rank);
    case Special::kClusterSize:
      return static_cast<uint32_t>(launch.cluster[0] * launch.cluster[1] * launch.cluster[2]);
    case Special::kDynamicShared: return static_cast<uint32_t>(launch.shared_bytes);
    case Special::kZero: return 0;
  }
  return 0;
}

}  // namespace lw::ptx_interpreter
