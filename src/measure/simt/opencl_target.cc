#include "src/measure/simt/opencl_target.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "schedules/targets/family.h"
#include "schedules/targets/simt/simt_target.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/measure/simt/common/device_target.h"
#include "src/measure/simt/opencl_devices.h"
#include "src/measure/simt/opencl_probe.h"

namespace lw {
namespace {

// The device is this machine's processors, whose caches and instructions are known.
void as_processors(const OpenClDevice& d, Target* target, SimtTarget* part) {
  const absl::StatusOr<Target> host = find_target("host");
  if (!host.ok()) return;
  target->ghz = host->ghz;
  target->caches = host->caches;
  target->atoms.clear();
  for (const Atom& atom : host->atoms) {
    // What OpenCL C says in its own words: multiply-adds of one type.
    if (atom.group == 1 && atom.a == atom.b && atom.a == atom.acc) target->atoms.push_back(atom);
  }
  const RegisterFile registers = host->part.family()->registers(*host);
  part->vector_bytes = registers.vector_bytes;
  part->register_bytes = int64_t{registers.vectors} * registers.vector_bytes;
  part->loads_per_cycle = registers.loads_per_cycle;
  part->access_bytes = d.line_bytes > 0 ? static_cast<int64_t>(d.line_bytes) : part->access_bytes;
}

// Of four bytes by four, as often as multiply-adds: how fast they are nobody says.
void add_dot_products(Target* target) {
  const Atom* fma = multiply_add(*target, Type::kF32);
  if (fma == nullptr) return;
  for (const Type a : {Type::kI8, Type::kU8}) {
    Atom atom = *fma;
    atom.name = a == Type::kI8 ? "i8_dot" : "u8i8_dot";
    atom.a = a;
    atom.b = Type::kI8;
    atom.acc = Type::kI32;
    atom.group = 4;
    target->atoms.push_back(atom);
  }
}

// Threads that a multiprocessor holds at once, of the table of compute capabilities in NVIDIA's CUDA
// C++ Programming Guide. 0: of none that is known.
int64_t resident_items_nv(uint64_t capability) {
  if (capability < 30) return 0;
  switch (capability) {
    case 75: return 1024;
    case 86: case 87: case 88: case 89: return 1536;
    default: return capability < 110 ? 2048 : 1536;
  }
}

void as_accelerator(const OpenClDevice& d, Target* target, SimtTarget* part) {
  set_clock_and_l2(target, d.mhz, d.cache_bytes);
  if (d.line_bytes > 0) part->access_bytes = static_cast<int64_t>(d.line_bytes);
  // Until a probe says how fast it is, as fast as may be: what is measured is held against it.
  for (Atom& atom : target->atoms) atom.per_cycle = part->simd;
  if (d.float_lanes > 1 && d.float_lanes <= 16 && std::has_single_bit(d.float_lanes)) {
    part->vector_bytes = static_cast<int>(4 * d.float_lanes);
  }
  if (d.has_extension("cl_khr_integer_dot_product")) add_dot_products(target);
  // A kernel that declares 48 KiB needs, so its driver, so much more, and is not run.
  if (d.capability_nv > 0) part->local_bytes -= std::min<int64_t>(part->local_bytes, 64);
  if (d.warp_nv >= 2 && d.warp_nv <= 64) part->simd = static_cast<int>(d.warp_nv);
  part->unit_items = std::max(part->unit_items, resident_items_nv(d.capability_nv));
}

// Of the sizes that the device offers, one whose items make a vector of floats, or, where items are
// no lanes of vectors, one of 16 or more. 1: it has none.
int sub_group_of(const OpenClDevice& d, const SimtTarget& part) {
  constexpr uint64_t kEnough = 16;
  const uint64_t wanted =
      d.is_processor() ? static_cast<uint64_t>(part.vector_bytes) / size_of(Type::kF32) : kEnough;
  uint64_t size = 1;                       // of a group's at most
  for (uint64_t offered : d.sub_groups) {
    if (size < wanted && offered <= d.group_items) size = offered;
  }
  return static_cast<int>(size);
}

// Of what its driver says and, where there is one, of the probe.
absl::StatusOr<Target> describe_itself(const OpenClDevice& d, const OpenClProbe* probe) {
  ASSIGN_OR_RETURN(Target target, find_target(d.is_processor() ? "opencl_cpu" : "opencl_gpu"));
  SimtTarget part = simt(target);
  target.name = driven_target_name(kOpenClPrefix, d.name);
  part.device = d.name;
  part.units = static_cast<int>(d.units);
  part.group_items = static_cast<int64_t>(d.group_items);
  part.unit_items = std::max(part.group_items, d.is_processor() ? 0 : part.unit_items);
  part.local_bytes = static_cast<int64_t>(d.local_bytes);
  part.local_real = d.local_real && !d.is_processor();
  part.buffer_bytes = static_cast<int64_t>(std::min(d.buffer_bytes, kMostBufferBytes));
  part.fp64 = d.fp64;
  part.half = d.half;
  if (d.is_processor()) as_processors(d, &target, &part);
  else as_accelerator(d, &target, &part);
  part.sub_group = sub_group_of(d, part);
  if (probe != nullptr) apply_probe(d, *probe, &target, &part);
  if (!d.fp64) {
    std::erase_if(target.atoms, [](const Atom& atom) { return atom.acc == Type::kF64; });
  }
  target.features.clear();
  if (d.half) target.features.push_back("fp16");
  if (d.fp64) target.features.push_back("fp64");
  part.register_bytes = std::max<int64_t>(part.register_bytes, 4 * part.vector_bytes);
  set_simt(&target, std::move(part));
  // As it is read again: what no target may say is said here, and by whom.
  return parse_target(to_text(target), concat("opencl:", d.index));
}

}  // namespace

absl::StatusOr<Target> opencl_target(std::string_view which) {
  ASSIGN_OR_RETURN(const OpenClDevice d, find_opencl_device(which));
  if (const std::optional<OpenClProbe> probe = kept_probe(d)) {
    absl::StatusOr<Target> probed = describe_itself(d, &*probe);
    if (probed.ok()) return probed;        // or somebody has written nonsense there
  }
  absl::StatusOr<Target> described = describe_itself(d, nullptr);
  if (described.ok()) return described;
  return absl::UnavailableError(concat("the OpenCL driver's description makes no target: ",
                                       std::string(described.status().message())));
}

}  // namespace lw
