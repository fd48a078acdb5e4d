#include "bench/opencl/clblast.h"

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <sstream>

#include "nlohmann/json.hpp"
#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/message.h"
#include "src/measure/simt/opencl_devices.h"
#include "src/peers/libraries/views.h"

namespace lw {
namespace {

// Of clblast_c.h, as far as it is called here.
constexpr int kRowMajor = 101, kNo = 111, kYes = 112, kSingle = 32;
using Queue = cl::Queue*;
using Events = cl::Event*;
using Gemm = int (*)(int, int, int, size_t, size_t, size_t, float, cl::Memory, size_t, size_t,
                     cl::Memory, size_t, size_t, float, cl::Memory, size_t, size_t, Queue, Events);
using GemmBatched = int (*)(int, int, int, size_t, size_t, size_t, float, cl::Memory, size_t,
                            size_t, size_t, cl::Memory, size_t, size_t, size_t, float, cl::Memory,
                            size_t, size_t, size_t, size_t, Queue, Events);
using Transpose = int (*)(int, int, size_t, size_t, float, cl::Memory, size_t, size_t, cl::Memory,
                          size_t, size_t, Queue, Events);
using Reduce = int (*)(size_t, cl::Memory, size_t, cl::Memory, size_t, size_t, Queue, Events);
using Override = int (*)(cl::DeviceId, const char*, int, size_t, const char**, const size_t*);

absl::Status called(int error, const std::string& routine) {
  if (error == 0) return absl::OkStatus();
  return absl::InternalError(concat("CLBlast ", routine, ": status ", error));
}

// Kernels of a product, by the name that parameters are set for, and their tuners' files.
using Tuned = std::vector<std::pair<const char*, std::vector<std::string>>>;
const Tuned kDirect = {{"XgemmDirect", {"xgemm_direct_1", "xgemm_direct_2"}}};
// What copies operands that do not fit the tiles too.
const Tuned kTiles = {{"Xgemm", {"xgemm_1", "xgemm_2", "xgemm_11", "xgemm_12"}},
                      {"Copy", {"copy"}},
                      {"Pad", {"pad"}},
                      {"Transpose", {"transpose"}},
                      {"Padtranspose", {"padtranspose"}}};
constexpr int kCalls = 20;                 // in which one set of parameters is judged

absl::Status override_parameters(Override call, cl::DeviceId device, const char* kernel,
                                 const TunedParameters& tuned) {
  std::vector<const char*> names;
  std::vector<size_t> values;
  for (const auto& [name, value] : tuned.values) {
    names.push_back(name.c_str());
    values.push_back(value);
  }
  return called(call(device, kernel, kSingle, names.size(), names.data(), values.data()),
                concat("OverrideParameters ", kernel));
}

absl::Status take_parameters(Override call, cl::DeviceId device, const Tuned& kernels,
                             const std::string& folder) {
  for (const auto& [kernel, families] : kernels) {
    const absl::StatusOr<TunedParameters> tuned = tuned_parameters(folder, families);
    if (tuned.ok()) RETURN_IF_ERROR(override_parameters(call, device, kernel, *tuned));
  }
  return absl::OkStatus();
}

// The least of some calls, after one that compiles.
absl::StatusOr<double> seconds_of(ClBlast::Way& way, OpenClSession* session) {
  double least = std::numeric_limits<double>::infinity();
  way.select();
  for (int call = 0; call <= kCalls; ++call) {
    const double begin = now();
    RETURN_IF_ERROR(way.enqueue());
    RETURN_IF_ERROR(session->finish());
    if (call > 0) least = std::min(least, now() - begin);
  }
  return least;
}

// Leaves the parameters of that folder by which the way is fastest, and says so in its name.
absl::Status take_fastest(Override call, cl::DeviceId device, const Tuned& kernels,
                          const std::vector<std::string>& folders, OpenClSession* session,
                          ClBlast::Way& way) {
  std::string fastest;
  double least = std::numeric_limits<double>::infinity();
  for (const std::string& folder : folders) {
    RETURN_IF_ERROR(take_parameters(call, device, kernels, folder));
    const absl::StatusOr<double> seconds = seconds_of(way, session);
    if (!seconds.ok() || *seconds >= least) continue;
    least = *seconds, fastest = folder;
  }
  if (fastest.empty()) return absl::OkStatus();
  way.name += concat(", as for ", std::filesystem::path(fastest).filename().string());
  return take_parameters(call, device, kernels, fastest);
}

}  // namespace

absl::StatusOr<ClBlast> ClBlast::load() {
  ClBlast loaded;
  loaded.library_ = dlopen("libclblast.so.1", RTLD_NOW | RTLD_LOCAL);
  if (loaded.library_ != nullptr) return loaded;
  return absl::NotFoundError("no libclblast.so.1: Debian's libclblast-dev has it");
}

absl::StatusOr<std::vector<ClBlast::Way>> ClBlast::prepare(
    const PeerCase& description, const std::vector<cl::Memory>& buffers, OpenClSession* session,
    const std::vector<std::string>& folders) const {
  const auto symbol = [&](const char* name) { return dlsym(library_, name); };
  const auto set = reinterpret_cast<Override>(symbol("CLBlastOverrideParameters"));
  std::vector<Way> ways;
  ASSIGN_OR_RETURN(const cl::DeviceId device,
                   open_opencl_device(session->api(), session->device()));
  cl::Queue queue = session->queue();
  if (const auto* g = std::get_if<PeerGemm>(&description)) {
    const size_t d = g->batch.size();
    if (!is_f32(*g) || g->epilogue != PeerEpilogue::kNone || d > 1) return ways;
    const MatrixLayout a = matrix_layout(g->m, g->k, g->a.strides[d], g->a.strides[d + 1]);
    const MatrixLayout b = matrix_layout(g->k, g->n, g->b.strides[d], g->b.strides[d + 1]);
    const MatrixLayout c = matrix_layout(g->m, g->n, g->c.strides[d], g->c.strides[d + 1]);
    if (!a.valid || !b.valid || !c.valid || c.transposed) return ways;
    for (const bool direct : {false, true}) {
      Way way;
      way.name = direct ? "gemm, direct" : "gemm, tiles";
      way.select = [=] {
        const char* const name = "XGEMM_MIN_INDIRECT_SIZE";
        const char* names[] = {name};
        const size_t value = direct ? size_t{1} << 30 : 0;
        set(device, "GemmRoutine", kSingle, 1, names, &value);
      };
      const auto one = reinterpret_cast<Gemm>(symbol("CLBlastSgemm"));
      const auto many = reinterpret_cast<GemmBatched>(symbol("CLBlastSgemmStridedBatched"));
      way.enqueue = [=, g = *g, q = queue]() mutable {
        const cl::Memory in_a = buffers[g.a.argument], in_b = buffers[g.b.argument];
        const cl::Memory out = buffers[g.c.argument];
        const int ta = a.transposed ? kYes : kNo, tb = b.transposed ? kYes : kNo;
        if (d == 0) {
          return called(one(kRowMajor, ta, tb, g.m, g.n, g.k, 1, in_a, 0, a.leading, in_b, 0,
                            b.leading, 0, out, 0, c.leading, &q, nullptr),
                        "Sgemm");
        }
        return called(many(kRowMajor, ta, tb, g.m, g.n, g.k, 1, in_a, 0, a.leading,
                           g.a.strides[0], in_b, 0, b.leading, g.b.strides[0], 0, out, 0,
                           c.leading, g.c.strides[0], g.batch[0], &q, nullptr),
                      "SgemmStridedBatched");
      };
      RETURN_IF_ERROR(
          take_fastest(set, device, direct ? kDirect : kTiles, folders, session, way));
      ways.push_back(std::move(way));
    }
  } else if (const auto* t = std::get_if<PeerTranspose>(&description)) {
    // y's contiguous dimension is x's strided one, and the other way about.
    if (t->dims.size() != 2 || t->x.strides[0] != 1 || t->y.strides[1] != 1) return ways;
    const auto call = reinterpret_cast<Transpose>(symbol("CLBlastSomatcopy"));
    ways.push_back({"omatcopy", {}, [=, t = *t, q = queue]() mutable {
      return called(call(kRowMajor, kYes, t.dims[1], t.dims[0], 1, buffers[t.x.argument], 0,
                         t.x.strides[1], buffers[t.y.argument], 0, t.y.strides[0], &q, nullptr),
                    "Somatcopy");
    }});
  } else if (const auto* r = std::get_if<PeerReduction>(&description)) {
    using Kind = PeerReduction::Kind;
    int64_t elements = 1;
    for (size_t i = r->dims.size(); i-- > 0;) {
      if (!r->reduced[i] && r->dims[i] != 1) return ways;
      if (r->dims[i] != 1 && r->x.strides[i] != elements) return ways;
      elements *= r->dims[i];
    }
    if (r->kind != Kind::kSum && r->kind != Kind::kNorm2) return ways;
    const bool sum = r->kind == Kind::kSum;
    const auto call = reinterpret_cast<Reduce>(symbol(sum ? "CLBlastSsum" : "CLBlastSnrm2"));
    ways.push_back({sum ? "sum" : "nrm2", {}, [=, r = *r, q = queue]() mutable {
      return called(call(elements, buffers[r.y.argument], 0, buffers[r.x.argument], 0, 1, &q,
                         nullptr),
                    sum ? "Ssum" : "Snrm2");
    }});
  }
  return ways;
}

absl::StatusOr<TunedParameters> tuned_parameters(const std::string& folder,
                                                 const std::vector<std::string>& families) {
  TunedParameters best;
  for (const std::string& family : families) {
    std::ifstream file(concat(folder, "/clblast_", family, "_32.json"));
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    const nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) continue;
    const int64_t tried = best.tried + static_cast<int64_t>(json.at("results").size());
    const double time_ms = std::stod(json.at("best_time").get<std::string>());
    if (best.tried == 0 || time_ms < best.time_ms) {
      best.time_ms = time_ms;
      best.values.clear();
      std::istringstream words(json.at("best_parameters").get<std::string>());
      for (std::string word; words >> word;) {
        const size_t at = word.find('=');
        if (word.substr(0, at) == "PRECISION") continue;
        best.values[word.substr(0, at)] = std::stoull(word.substr(at + 1));
      }
    }
    best.tried = tried;
  }
  if (best.tried == 0) return absl::NotFoundError("no file of a tuner in " + folder);
  return best;
}

}  // namespace lw
