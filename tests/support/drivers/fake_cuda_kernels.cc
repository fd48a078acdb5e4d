// The fake driver's programs: modules, functions, launches (fake_cuda.cc).
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "src/build/simt/ptx/interpreter/interpret.h"
#include "tests/support/drivers/fake_cuda.h"

using namespace fake_cuda;  // NOLINT: the driver's functions are in none

namespace {

constexpr char kCubin[] = "FAKECUBIN\n";

std::vector<FakeFunction*> functions;

bool parse_entries(FakeModule* module) {
  const std::string& text = module->source;
  if (text.find(".version") == std::string::npos || text.find(".target") == std::string::npos ||
      text.find("flaot") != std::string::npos) {
    return false;
  }
  constexpr char kWord[] = ".entry ";
  for (size_t at = text.find(kWord); at != std::string::npos; at = text.find(kWord, at + 1)) {
    const size_t open = text.find('(', at), close = text.find(')', at), body = text.find('{', at);
    if (open == std::string::npos || close == std::string::npos || body == std::string::npos) {
      return false;
    }
    FakeEntry entry;
    for (size_t p = text.find(".param", open); p < close; p = text.find(".param", p + 1)) {
      const size_t end = std::min(text.find(',', p), close);
      entry.is_map.push_back(text.substr(p, end - p).ends_with("[128]"));
    }
    const size_t most = text.find(".maxntid ", close);
    if (most < body) {
      entry.most_threads = static_cast<unsigned>(std::atoi(text.c_str() + most + 9));
    }
    std::string name = text.substr(at + sizeof kWord - 1, open - at - sizeof kWord + 1);
    name.erase(std::remove(name.begin(), name.end(), ' '), name.end());
    module->entries[name] = entry;
  }
  return !module->entries.empty();
}

// Of a parameter's bytes, an address or a tensor map.
uint64_t address_in(const std::string& value) {
  uint64_t address = 0;
  lw::PtxTensorMap map;
  if (value.size() < sizeof map) {
    std::memcpy(&address, value.data(), sizeof address);
    return address;
  }
  std::memcpy(&map, value.data(), sizeof map);
  if (map.magic != lw::PtxTensorMap::kMagic) misuse("a tensor map that nobody has encoded");
  return map.address;
}

// A kernel, by the interpreter of PTX: 0, or the error that it ends with.
int run_entry(const std::string& source, const std::string& name, unsigned groups, unsigned items,
              unsigned shared, const std::vector<std::string>& parameters) {
  static std::map<std::string, absl::StatusOr<lw::PtxModule>> parsed;
  auto it = parsed.find(source);
  if (it == parsed.end()) it = parsed.emplace(source, lw::parse_ptx(source)).first;
  const absl::StatusOr<lw::PtxModule>& module = it->second;
  if (!module.ok()) misuse("PTX: %s", std::string(module.status().message()).c_str());
  lw::PtxLaunch launch;
  launch.entry = name;
  launch.groups[0] = groups;
  launch.items[0] = items;
  launch.shared_bytes = shared;
  launch.parameters = parameters;
  const lw::PtxEntry* const entry = module->find(name);
  if (entry != nullptr && entry->cluster[0] > 0) launch.cluster = entry->cluster;
  std::vector<lw::PtxMemory> memory;
  for (const auto& [address, bytes] : allocations) {
    memory.push_back({address, static_cast<int64_t>(bytes), true});
  }
  lw::PtxOptions options;
  options.step_limit = 20'000'000;
  const absl::Status status = lw::interpret_ptx(*module, launch, memory, options);
  record("run_entry %s: %s", name.c_str(), status.ToString().c_str());
  if (absl::IsResourceExhausted(status)) hanging = true;
  return status.ok() || absl::IsResourceExhausted(status) ? 0 : 700;
}

void run_kernel(const FakeFunction& f, unsigned groups, unsigned items, unsigned shared,
                const std::vector<std::string>& parameters) {
  if (sticky != 0) return;
  const std::string& source = f.module->source;
  const uint64_t start = clock_ns(), takes_ns = does(source, "slow") ? 200'000 : 5'000;
  device_ns += takes_ns;
  for (const std::string& value : parameters) need_memory("a kernel", address_in(value), 1);
  if (does(source, "launch_dies")) raise(SIGSEGV);
  if (does(source, "hang")) hanging = true;
  if (does(source, "lost")) sticky = kLost;
  if (const int error = launch_error(source); error >= 700 && error != 701) sticky = error;
  std::string call = f.name;
  for (const std::string& value : parameters) call += " " + value;
  const bool again = computed.has_value() && !computed->insert(call).second;
  if (sticky == 0 && !again) {
    sticky = run_entry(source, f.name, groups, items, shared, parameters);
  }
  while (clock_ns() - start < takes_ns) {}
}

}  // namespace

extern "C" {

int cuModuleLoadDataEx(FakeModule** module, const char* image, unsigned count, const int* options,
                       void** values) {
  const bool cubin = std::strncmp(image, kCubin, sizeof kCubin - 1) == 0;
  record("cuModuleLoadDataEx image=%s options=%u", cubin ? "cubin" : "ptx", count);
  if (const int error = in_context("cuModuleLoadDataEx")) return error;
  char* log = nullptr;
  size_t room = 0;
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] == 5) log = static_cast<char*>(values[i]);
    if (options[i] == 6) room = reinterpret_cast<size_t>(values[i]);
  }
  const auto refuse = [&](int error, const char* why) {
    if (log != nullptr) std::snprintf(log, room, "%s", why);
    return error;
  };
  FakeModule loaded;
  loaded.source = cubin ? image + sizeof kCubin - 1 : image;
  const size_t first = loaded.source.find_first_not_of(" \n");
  if (first == std::string::npos) return kInvalidImage;
  if (!cubin && loaded.source[first] != '.' && loaded.source[first] != '/') return kNoBinary;
  if (cubin && !setting("refuse_cubin").empty()) return kNoBinary;
  if (!cubin && !setting("refuse_ptx").empty()) return refuse(222, "ptxas fatal: version");
  if (!parse_entries(&loaded)) return refuse(kInvalidPtx, "ptxas fatal: line 1: what is this?");
  *module = made(new FakeModule(std::move(loaded)));
  return 0;
}
int cuTensorMapEncodeTiled(void* made, int type, uint32_t rank, uint64_t address,
                           const uint64_t* sizes, const uint64_t* strides, const uint32_t* box,
                           const uint32_t* steps, int interleave, int swizzle, int, int fill) {
  record("cuTensorMapEncodeTiled type=%d rank=%u swizzle=%d", type, rank, swizzle);
  if (reinterpret_cast<uintptr_t>(made) % 64 != 0) misuse("a tensor map at no multiple of 64");
  if (rank < 1 || rank > 5 || interleave != 0 || fill != 0) return kInvalidValue;
  lw::PtxTensorMap map;
  map.type = static_cast<uint8_t>(type);
  map.rank = static_cast<uint8_t>(rank);
  map.swizzle = static_cast<uint8_t>(swizzle);
  map.address = address;
  for (uint32_t d = 0; d < rank; ++d) {
    map.dims[d] = sizes[d];
    map.box[d] = static_cast<uint16_t>(box[d]);
    map.element_strides[d] = static_cast<uint16_t>(steps[d]);
    if (d > 0) map.strides[d - 1] = strides[d - 1];
  }
  need_memory("cuTensorMapEncodeTiled", address, 1);
  const absl::StatusOr<std::string> bytes = lw::encode_tensor_map(map);
  record("encoded: %s", bytes.status().ToString().c_str());
  if (!bytes.ok()) return kInvalidValue;
  std::memcpy(made, bytes->data(), bytes->size());
  return 0;
}
int cuModuleUnload(FakeModule* module) {
  record("cuModuleUnload");
  if (const int error = in_context("cuModuleUnload")) return error;
  for (FakeFunction* f : functions) {
    if (f->module == module) handles.erase(f);
  }
  gone("cuModuleUnload", module);
  return 0;
}
int cuModuleGetFunction(FakeFunction** function, FakeModule* module, const char* name) {
  record("cuModuleGetFunction name=%s", name);
  if (const int error = in_context("cuModuleGetFunction")) return error;
  need_handle("cuModuleGetFunction", module);
  const auto it = module->entries.find(name);
  if (it == module->entries.end()) return kNotFound;
  *function = made(new FakeFunction{module, name, it->second});
  functions.push_back(*function);
  return 0;
}
int cuFuncGetAttribute(int* value, int attribute, FakeFunction* f) {
  record("cuFuncGetAttribute attribute=%d", attribute);
  need_handle("cuFuncGetAttribute", f);
  const int most = static_cast<int>(f->entry.most_threads);
  *value = attribute == 0 ? (does(f->module->source, "crowded") ? 8 : most) : 0;
  return in_context("cuFuncGetAttribute");
}
int cuFuncSetAttribute(FakeFunction* f, int attribute, int value) {
  record("cuFuncSetAttribute attribute=%d value=%d", attribute, value);
  need_handle("cuFuncSetAttribute", f);
  if (attribute == 8) f->dynamic_shared = value;
  return in_context("cuFuncSetAttribute");
}
int cuLaunchKernel(FakeFunction* f, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned x,
                   unsigned y, unsigned z, unsigned shared, FakeStream* stream, void** parameters,
                   void** extra) {
  need_handle("cuLaunchKernel", f);
  record("cuLaunchKernel name=%s grid=%u,%u,%u block=%u,%u,%u shared=%u", f->name.c_str(), grid_x,
         grid_y, grid_z, x, y, z, shared);
  if (const int error = in_context("cuLaunchKernel")) return error;
  if (extra != nullptr) misuse("cuLaunchKernel: parameters in two ways");
  if (grid_x == 0 || grid_y != 1 || grid_z != 1 || x == 0 || y != 1 || z != 1) {
    misuse("cuLaunchKernel: a grid or block that is none");
  }
  if (x > limit("threads", 1024) || shared > limit("shared", 232'448)) {
    misuse("cuLaunchKernel: a block beyond the device's limits");
  }
  if (shared > static_cast<unsigned>(f->dynamic_shared)) {
    misuse("cuLaunchKernel: shared memory that was not asked for");
  }
  if (x > f->entry.most_threads) return kInvalidValue;
  std::vector<std::string> values;
  for (size_t i = 0; i < f->entry.is_map.size(); ++i) {
    if (parameters[i] == nullptr) {
      misuse("cuLaunchKernel: too few parameters for %s", f->name.c_str());
    }
    values.emplace_back(static_cast<const char*>(parameters[i]), f->entry.is_map[i] ? 128 : 8);
    need_memory("cuLaunchKernel", address_in(values.back()), 1);
  }
  if (parameters[values.size()] != nullptr) {
    misuse("cuLaunchKernel: too many parameters for %s", f->name.c_str());
  }
  const int error = launch_error(f->module->source);
  if (error == 701 || (error > 0 && error < 700)) return error;
  put(stream, [=] { run_kernel(*f, grid_x, x, shared, values); });
  return 0;
}

}  // extern "C"
