// What a device does at most, measured: what `doctor` says of it, and what the target that describes
// itself takes its constants from, once they are known.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "schedules/targets/simt/simt_target.h"
#include "src/measure/simt/opencl_devices.h"

namespace lw {

// 0: not measured.
struct OpenClProbe {
  struct Copy {
    int width = 1;                         // floats of a vector
    double gbytes = 0;                     // GB/s, read and written together
  };
  std::vector<Copy> copies;
  struct Read {
    int64_t bytes = 0;                     // of the window that all units read again and again
    double gbytes = 0;                     // GB/s, of all units together
  };
  std::vector<Read> reads;                 // ascending windows; none of processors
  double fma_gflops = 0;                   // a multiply-add two
  double local_gbytes = 0;                 // GB/s read by all units together
  int barrier_items = 0;                   // of the group that met
  double barrier_us = 0;
  double launch_us = 0;                    // a kernel that does nothing, behind others
  double group_us = 0;                     // of a unit, a group of one item that does nothing
  double took_s = 0;
};

// In a process of its own; some two seconds, most of which the driver compiles. kUnavailable: that
// ended, or took longer than `limit_s`.
absl::StatusOr<OpenClProbe> probe_opencl(const OpenClDevice& device, double limit_s = 60);

// The memory that all units share before the last: the largest window that is read at nearly the
// rate of the smallest, and that rate. nullopt: no window is read much faster than the largest.
std::optional<OpenClProbe::Read> shared_cache(const OpenClProbe& probe);

// One is enough for a device and a release of its driver: it is kept in the user's state folder. Not
// OK: it cannot be written.
absl::Status keep_probe(const OpenClDevice& device, const OpenClProbe& probe);
std::optional<OpenClProbe> kept_probe(const OpenClDevice& device);

// The figures that a target has, in steps of a fifth: two probes of one device seldom differ by more,
// and with its target the key of its results would. Of a device that is this machine's processors
// those of arithmetic and memory stay as the machine's are known.
void apply_probe(const OpenClDevice& device, const OpenClProbe& probe, Target* target,
                 SimtTarget* part);

// {"copies":[{"width":1,"gbytes":..}],...}, and back; kInvalidArgument: it is none.
std::string to_json(const OpenClProbe& probe);
absl::StatusOr<OpenClProbe> parse_probe(std::string_view json);

}  // namespace lw
