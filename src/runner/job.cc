#include "src/runner/job.h"

#include <deque>

#include "src/base/clock.h"
#include "src/base/parallel_pool.h"
#include "loopwright/context.h"
#include "src/measure/machine/processors.h"
#include "src/measure/run/caches.h"
#include "src/measure/run/timing.h"
#include "src/runner/crash.h"
#include "src/runner/memory.h"

namespace lw::runner {
namespace {

using Entry = int32_t (*)(const lw_context*, void* const*);

// As the host has it (measure/run): what is timed lies as memory usually comes, some lines into a
// page and with room behind, where idle lanes of vectors reach.
constexpr size_t kStagger = 17 * 64, kRoomBehind = 4096;

// One thread plays all workers, in turn: each has its own private memory, as with real threads.
void in_turn(void* pool, int64_t count, void (*body)(void*, int64_t, int64_t), void* closure) {
  const int64_t workers = *static_cast<const int64_t*>(pool);
  for (int64_t i = 0; i < count; ++i) body(closure, i, i % workers);
}

// Memory that a code is given; null `start`: the system refused.
struct Own {
  Guarded map;
  char* start = nullptr;
  size_t size = 0;
  Own(size_t bytes, bool timed)
      : map(timed && bytes > 0 ? kStagger + bytes + kRoomBehind : bytes), size(bytes) {
    if (map.data() != nullptr) start = timed && bytes > 0 ? map.data() + kStagger : map.end() - bytes;
  }
  bool intact() const { return map.intact_beside(start, size); }
  void flush() const {
    flush_caches(reinterpret_cast<const std::byte*>(map.data()), static_cast<int64_t>(map.bytes()));
  }
};

struct Loaded {
  Entry run = nullptr, prepack = nullptr;
  Own workspace, packed;
  lw_context context{};
};

class Bench {
 public:
  explicit Bench(const Job& job) : job_(job) {
    // The calling thread is worker 0.
    if (!job.timed) return;
    const std::vector<int> cpus = measuring_processors(allowed_cpus(), static_cast<int>(job.workers));
    pin_to({cpus[0]});
    if (job.workers > 1) pool_.emplace(static_cast<int>(job.workers), cpus);
  }

  // What the system refuses; "": nothing.
  std::string map() {
    for (const Job::Argument& a : job_.arguments) {
      Guarded map(a.pages);
      if (map.data() == nullptr) return "no memory for the arguments";
      // Flush with the upper guard whatever the device's pages are.
      char* start = map.end() - a.pages;
      if (!a.output) {
        memcpy(start, a.content.data(), a.content.size());
        if (!map.make_read_only()) return "no memory for the arguments";
      }
      data_.push_back(start + a.offset);
      maps_.push_back(std::move(map));
    }
    for (const Job::Code& code : job_.codes) {
      if (!map_image(code)) return "the image's address is taken";
      Loaded& one = codes_.emplace_back(
          Loaded{reinterpret_cast<Entry>(code.run), reinterpret_cast<Entry>(code.prepack),
                 Own(code.workspace_bytes, job_.timed), Own(code.packed_bytes, job_.timed)});
      if (one.workspace.start == nullptr || one.packed.start == nullptr) {
        return "no memory for the workspace";
      }
      one.context.workers = static_cast<int64_t>(job_.workers);
      one.context.workspace = one.workspace.start;
      one.context.packed = one.packed.start;
      if (job_.workers == 1) continue;
      one.context.parallel_for = pool_ ? &ParallelPool::parallel_for : in_turn;
      one.context.pool = pool_ ? static_cast<void*>(&*pool_) : &workers_;
    }
    return "";
  }

  Result run() {
    Result result;
    for (Loaded& code : codes_) {
      describe(code);
      if (code.prepack != nullptr) result.code = code.prepack(&code.context, data_.data());
      if (result.code != 0) return result;
    }
    if (job_.timed) time(&result);
    else result.code = call(codes_[0]);
    forget_crash_frame();
    for (const Loaded& code : codes_) {
      result.intact &= code.workspace.intact() && code.packed.intact();
    }
    for (size_t i = 0; i < job_.arguments.size(); ++i) {
      const Job::Argument& a = job_.arguments[i];
      if (a.output) result.outputs.emplace_back(maps_[i].end() - a.pages, a.pages);
    }
    return result;
  }

 private:
  int32_t call(Loaded& code) { return code.run(&code.context, data_.data()); }

  void time(Result* result) {
    std::vector<Timed> calls;
    for (Loaded& code : codes_) {
      calls.push_back({[this, &code] { return call(code) == 0; }, [this, &code] { flush(code); }});
    }
    const double begin = now();
    const std::vector<Timing> timings =
        job_.rounds > 0 ? time_in_turns(calls, static_cast<int>(job_.rounds), job_.plan,
                                        [this](size_t i) { describe(codes_[i]); })
                        : std::vector<Timing>{time_call(calls[0], job_.plan)};
    result->inside_s = now() - begin;
    for (const Timing& t : timings) {
      if (!t.ok) result->code = 1;
      result->times.push_back({t.samples_us, t.inner, t.raced_out});
    }
  }

  void flush(const Loaded& code) const {
    for (const Guarded& map : maps_) {
      flush_caches(reinterpret_cast<const std::byte*>(map.data()),
                   static_cast<int64_t>(map.bytes()));
    }
    code.workspace.flush();
    code.packed.flush();
  }

  void describe(const Loaded& code) {
    Crash crash;
    for (size_t i = 0; i < maps_.size(); ++i) {
      crash.regions.push_back(
          maps_[i].region(static_cast<int32_t>(i), data(i), job_.arguments[i].bytes));
    }
    const auto add = [&](int32_t name, const Own& own) {
      if (own.size > 0) crash.regions.push_back(own.map.region(name, own.start, own.size));
    };
    add(Region::kWorkspace, code.workspace);
    add(Region::kPacked, code.packed);
    prepare_crash_frame(std::move(crash));
  }

  const char* data(size_t i) const { return static_cast<const char*>(data_[i]); }

  const Job& job_;
  std::vector<Guarded> maps_;
  std::vector<void*> data_;
  std::deque<Loaded> codes_;               // whose addresses stay
  int64_t workers_ = static_cast<int64_t>(job_.workers);
  std::optional<ParallelPool> pool_;
};

}  // namespace

Answer run_job(const Job& job) {
  if (job.timed && job.workers > allowed_cpus().size()) {
    return {Frame::kRefusal, "more threads than processors"};
  }
  Bench bench(job);
  const std::string refused = bench.map();
  if (!refused.empty()) return {Frame::kRefusal, refused};
  return {Frame::kResult, encode_result(bench.run())};
}

}  // namespace lw::runner
