// Loads and stores of the kernel's registers in PTX. Internal to src/build/simt/ptx.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/build/simt/ptx/ptx_address.h"
#include "src/build/simt/ptx/ptx_lanes.h"

namespace lw {

inline constexpr std::string_view kPtxSharedSpace = "shared";
inline constexpr std::string_view kPtxConstantSpace = "global.nc";  // which no item writes

// Of lanes side by side, or `stride` elements apart, from `place` on.
struct PtxAccess {
  std::string_view space = "global";       // "local", and those above
  PtxPlace place;
  int64_t alignment = 1;                   // of the first lane's address, bytes
  int64_t stride = 1;
  std::vector<std::string> mask;           // predicates, one a lane; empty: all lanes
  std::vector<std::string> offsets;        // of a gather: 64 bits a lane, in elements
};

// `reg`: the register that is loaded, or stored.
void ptx_load(PtxCode& code, PtxLanes& lanes, int reg, const Register& r, const PtxAccess& access);
void ptx_store(PtxCode& code, PtxLanes& lanes, int reg, const Register& r,
               const PtxAccess& access);

// From global to shared memory while the item goes on (cp.async; PTX ISA, 9.7.9.25.3): of so many
// bytes, at multiples of which both lie.
inline bool ptx_copies(int64_t bytes) { return bytes == 4 || bytes == 8 || bytes == 16; }
void ptx_copy(PtxCode& code, const PtxPlace& to, const PtxPlace& from, int64_t bytes);

// Iterations of a loop that are printed one after the other: of a few statements that move something,
// so that an item waits for several loads together, as many as a few registers hold.
int64_t ptx_at_once(const Kernel& kernel, const Stmt& loop);

}  // namespace lw
