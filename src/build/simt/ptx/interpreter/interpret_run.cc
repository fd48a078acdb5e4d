// The loop over a fragment's instructions, and the interpreter's entry.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/build/simt/ptx/interpreter/interpret.h"
#include "src/build/simt/ptx/interpreter/interpret_code.h"
#include "src/build/simt/ptx/interpreter/interpret_machine.h"

namespace lw::ptx_interpreter {

bool Machine::execute(Warp* warp, const Instruction& in, uint32_t mask) {
  for (const int32_t slot : in.reads) {
    const uint32_t missing = mask & ~warp->written[slot];
    if (missing != 0) {
      warp->fail(in, __builtin_ctz(missing),
                 concat("reads ", function->slots[slot].name, ", which was never written"));
      return false;
    }
  }
  in.run(*warp, in, mask);
  for (const int32_t slot : in.writes) warp->written[slot] |= mask;
  return !warp->failed;
}

bool Machine::end_lanes(Warp* warp) {
  for (Fragment& other : warp->fragments) {
    if (other.state != Fragment::State::kLanes) continue;
    const Instruction& in = function->code[other.pc];
    if (in.flow != Flow::kMembers) {
      warp->fail(in, -1,
                 concat("lanes ", lanes_text(other.mask), " wait here for others, which end"));
      return false;
    }
    other.state = Fragment::State::kRun;  // to find out whether those were named
  }
  return true;
}

bool Machine::run_fragment(Warp* warp, size_t which) {
  const Instruction* code = function->code.data();
  while (true) {
    if (left-- <= 0) return true;
    std::vector<Fragment>& fragments = warp->fragments;
    Fragment& f = fragments[which];
    const Instruction& in = code[f.pc];
    uint32_t active = f.mask;
    if (in.guard >= 0) {
      const uint32_t missing = active & ~warp->written[in.guard];
      if (missing != 0) {
        warp->fail(in, __builtin_ctz(missing),
                   concat("reads ", function->slots[in.guard].name, ", which was never written"));
        return false;
      }
      active &= in.guard_negated ? ~warp->bits[in.guard] : warp->bits[in.guard];
    }
    if (steps >= options.step_limit) {
      warp->fail(in, -1, "");
      status = absl::ResourceExhaustedError(concat("line ", in.line, ": '", in.text,
                                                   "': the launch takes more than ",
                                                   options.step_limit, " steps"));
      return false;
    }
    if (in.flow != Flow::kPoll) steps += std::popcount(f.mask);
    switch (in.flow) {
      case Flow::kNext:
        if (active != 0 && !execute(warp, in, active)) return false;
        ++f.pc;
        break;
      case Flow::kBranch:
        if (active == f.mask) {
          f.pc = static_cast<uint32_t>(in.target);
        } else {
          ++f.pc;
          if (active == 0) break;
          f.mask &= ~active;
          fragments.push_back({static_cast<uint32_t>(in.target), active});
          return true;
        }
        break;
      case Flow::kExit:
        if (active != 0) {
          warp->alive &= ~active;
          f.mask &= ~active;
          if (!end_lanes(warp)) return false;
          if (warp->bulk) {
            for (int lane = 0; lane < 32; ++lane) {
              if ((active >> lane & 1) && !finish_bulk(warp, lane)) {
                warp->fail(in, lane, "ends before its bulk stores have read shared memory");
                return false;
              }
            }
          }
          if (!warp->products.empty()) {
            warp->fail(in, -1, "ends before it has waited for its wgmma");
            return false;
          }
        }
        if (f.mask == 0) {
          fragments.erase(fragments.begin() + static_cast<int64_t>(which));
          return true;
        }
        ++f.pc;
        break;
      case Flow::kTrap:
        if (active != 0) {
          warp->fail(in, __builtin_ctz(active), "traps");
          return false;
        }
        ++f.pc;
        break;
      case Flow::kMembers:
      case Flow::kWhole:
      case Flow::kBarrier:
      case Flow::kPoll: {
        const size_t count = fragments.size();
        const uint32_t pc = f.pc;
        if (!collective(warp, which, active)) return false;
        const Fragment& now = warp->fragments[which];
        if (warp->fragments.size() != count || now.state != Fragment::State::kRun ||
            now.pc != pc + 1) {
          return true;
        }
        break;
      }
    }
    if (warp->fragments.size() == 1) continue;
    const Fragment& now = warp->fragments[which];
    for (size_t i = 0; i < warp->fragments.size(); ++i) {
      const Fragment& other = warp->fragments[i];
      if (i == which) continue;
      if (other.state == Fragment::State::kRun && other.pc <= now.pc) return true;
      if (other.state == Fragment::State::kLanes && other.pc == now.pc) return true;
    }
  }
}

bool Machine::collective(Warp* warp, size_t which, uint32_t active) {
  Fragment& f = warp->fragments[which];
  const Instruction& in = function->code[f.pc];
  const bool aligned =
      in.flow == Flow::kWhole || (in.flow != Flow::kMembers && in.aligned);
  if (aligned && active != 0 && active != f.mask) {
    warp->fail(in, __builtin_ctz(f.mask & ~active),
               "lanes differ in the predicate of an aligned instruction");
    return false;
  }
  if (active == 0) {
    ++f.pc;
    return true;
  }
  if (in.flow == Flow::kWhole && warp->alive != kAllLanes) {
    warp->fail(in, -1, "needs all 32 lanes of the warp, and some have ended or were never there");
    return false;
  }
  bool wait = aligned && active != warp->alive;
  if (in.flow == Flow::kMembers) {
    uint32_t members = 0;
    for (int lane = 0; lane < 32; ++lane) {
      if (!(active >> lane & 1)) continue;
      const uint32_t named = warp->get<uint32_t>(in.member_slot, lane);
      if (!(named >> lane & 1)) {
        warp->fail(in, lane, "the mask of members leaves out the lane itself");
        return false;
      }
      members |= named;
    }
    if ((members & ~warp->alive) != 0) {
      warp->fail(in, __builtin_ctz(members & ~warp->alive),
                 "the mask of members names a lane that has ended or was never there");
      return false;
    }
    wait = (members & ~active) != 0;
  }
  // Those whose predicate is off go on alone.
  const uint32_t others = f.mask & ~active;
  const uint32_t pc = f.pc;
  if (others != 0 && (wait || in.flow == Flow::kBarrier || in.flow == Flow::kPoll)) {
    f.mask = active;
    warp->fragments.push_back({pc + 1, others});
  }
  Fragment& mine = warp->fragments[which];
  if (wait) {
    mine.state = Fragment::State::kLanes;
    return true;
  }
  warp->wait_barrier = warp->full_barrier = -1;
  warp->poll_again = false;
  if (!execute(warp, in, active)) return false;
  if (warp->poll_again) {
    mine.state = Fragment::State::kPoll;
    return true;
  }
  if (in.flow == Flow::kPoll) steps += std::popcount(active);
  if (warp->wait_barrier >= 0) {
    mine.state = Fragment::State::kBarrier;
    mine.barrier = warp->wait_barrier;
  } else {
    ++mine.pc;
  }
  if (warp->full_barrier >= 0) release_barrier(warp->block, warp->full_barrier);
  return true;
}

}  // namespace lw::ptx_interpreter

namespace lw {

PtxModule::PtxModule(std::shared_ptr<const ptx_interpreter::Program> program)
    : program_(std::move(program)) {}
const std::vector<PtxEntry>& PtxModule::entries() const { return program_->entries; }
const std::string& PtxModule::target() const { return program_->target; }

const PtxEntry* PtxModule::find(std::string_view name) const {
  for (const PtxEntry& e : program_->entries) {
    if (e.name == name) return &e;
  }
  return nullptr;
}

std::string ptx_pointer(const void* address) {
  const uint64_t value = reinterpret_cast<uint64_t>(address);
  std::string out(sizeof(value), '\0');
  std::memcpy(out.data(), &value, sizeof(value));
  return out;
}

absl::Status interpret_ptx(const PtxModule& module, const PtxLaunch& launch,
                           const std::vector<PtxMemory>& memory, const PtxOptions& options,
                           PtxStatistics* statistics) {
  using ptx_interpreter::Function;
  ptx_interpreter::Machine machine;
  for (const Function& function : module.program().functions) {
    if (function.entry.name == launch.entry) machine.function = &function;
  }
  const auto bad = [&](const auto&... pieces) {
    return absl::InvalidArgumentError(concat("entry ", launch.entry, ": ", pieces...));
  };
  if (machine.function == nullptr) return bad("the module has none of this name");
  const PtxEntry& entry = machine.function->entry;
  int64_t items = 1, most = 1;
  for (int d = 0; d < 3; ++d) {
    if (launch.groups[d] < 1 || launch.items[d] < 1 || launch.cluster[d] < 1) {
      return bad("a launch of nothing");
    }
    if (launch.groups[d] % launch.cluster[d] != 0) return bad("clusters do not divide the blocks");
    if (entry.cluster[d] != 0 && entry.cluster[d] != launch.cluster[d]) {
      return bad("clusters of ", launch.cluster[d], ", and the entry demands ", entry.cluster[d]);
    }
    if (entry.exact_items && launch.items[d] != entry.max_items[d]) {
      return bad("blocks of ", launch.items[d], " threads, and the entry demands ",
                 entry.max_items[d]);
    }
    items *= launch.items[d];
    most *= entry.max_items[d];
  }
  if (most == 0) most = 1024;
  if (items > most) return bad("blocks of ", items, " threads, and ", most, " may be");
  if (launch.groups[0] > 0x7fffffff || launch.groups[1] > 65535 || launch.groups[2] > 65535) {
    return bad("too many blocks");
  }
  if (launch.shared_bytes < 0 || launch.shared_bytes + entry.static_shared_bytes > 232448) {
    return bad(launch.shared_bytes, " bytes of shared memory are more than a block has");
  }
  if (launch.parameters.size() != entry.parameters.size()) {
    return bad(launch.parameters.size(), " parameters for ", entry.parameters.size());
  }
  // Parameters are addressed by the host's pointers too, at their own alignment.
  const int64_t bytes = entry.parameter_bytes;
  machine.parameter_storage.assign(static_cast<size_t>(bytes) + 128, std::byte{0});
  const uint64_t storage = reinterpret_cast<uint64_t>(machine.parameter_storage.data());
  machine.parameters = reinterpret_cast<std::byte*>((storage + 127) / 128 * 128);
  machine.parameter_bytes = static_cast<uint64_t>(bytes);
  for (size_t i = 0; i < entry.parameters.size(); ++i) {
    const PtxEntry::Parameter& p = entry.parameters[i];
    const std::string& value = launch.parameters[i];
    if (static_cast<int64_t>(value.size()) != p.bytes) {
      return bad("parameter ", p.name, " has ", p.bytes, " bytes, not ", value.size());
    }
    std::memcpy(machine.parameters + p.offset, value.data(), value.size());
  }
  machine.memory = memory;
  std::sort(machine.memory.begin(), machine.memory.end(),
            [](const PtxMemory& a, const PtxMemory& b) { return a.address < b.address; });
  machine.launch = &launch;
  machine.options = options;
  const absl::Status status = machine.run();
  if (statistics != nullptr) statistics->steps = machine.steps;
  return status;
}

}  // namespace lw
