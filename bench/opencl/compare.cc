#include "bench/opencl/compare.h"

#include <algorithm>

#include "bench/arguments.h"
#include "bench/opencl/copies.h"
#include "bench/opencl/device_side.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/base/parallel_pool.h"
#include "src/expr/work/work.h"
#include "src/peers/interleave.h"
#include "src/peers/judge.h"
#include "src/peers/match/match.h"

namespace lw {
namespace {

constexpr int64_t kPoints = 64;
// As of CPU kernels beside libraries: idle threads spin for some milliseconds.
constexpr double kIdleSeconds = 0.02;

nlohmann::json to_json(const Estimate& e) { return {e.median, e.low, e.high}; }

}  // namespace

absl::StatusOr<DeviceResult> compare_on_device(const BenchCase& one, OpenClSession* session,
                                               const DeviceCompareOptions& options) {
  ASSIGN_OR_RETURN(const Program program, load_case(one));
  ASSIGN_OR_RETURN(const HostArguments host, host_arguments(program));
  void* const* pointers = host.pointers.data();
  DeviceResult result;
  result.name = one.name;
  const Work work = count_work(program);
  result.flops = work.flops.useful;
  result.bytes = work.bytes_read + work.bytes_written;

  ASSIGN_OR_RETURN(const DeviceTuned tuned, tune_on_device(options.device, one));
  result.tuning = tuned.tuning;
  ASSIGN_OR_RETURN(const std::unique_ptr<OpenClCall> ours,
                   load_call(session, tuned.program, pointers));
  // What a contender enqueues may fail in the middle of a timed loop, whose figures are then void.
  absl::Status failed;
  const std::vector<int> cpus = allowed_cpus();
  const auto wait = [&] { failed.Update(session->finish()); };
  const auto on_device = [&](std::string name, std::function<absl::Status()> enqueue,
                             std::function<void()> select = [] {}) {
    Contender contender{std::move(name), [&failed, enqueue] { failed.Update(enqueue()); }};
    contender.finish = wait;
    contender.select = [&cpus, select = std::move(select)] {
      pin_to(cpus);
      select();
    };
    return contender;
  };
  const Judge judge(program, pointers, kPoints);
  std::vector<Contender> contenders;
  const auto enter = [&](const Contender& contender, bool lies_on_device) -> absl::Status {
    Contender judged = contender;
    if (lies_on_device) {
      RETURN_IF_ERROR(ours->poison_outputs());
      judged.finish = [&] {
        wait();
        failed.Update(ours->read_outputs(pointers));
      };
    }
    const Check check = judge.run(judged);
    RETURN_IF_ERROR(failed);
    if (!check.ok) return absl::InternalError(concat(contender.name, ": ", check.detail));
    if (contenders.empty()) result.max_error = check.worst;
    contenders.push_back(contender);
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(enter(on_device("loopwright", [&] { return ours->enqueue(); }), true));

  int host_at = -1, copy_at = -1;
  if (options.with_host) {
    const absl::StatusOr<OurKernel> kernel =
        our_side(options.host)(one, program, pointers, options.host_threads);
    if (!kernel.ok()) return kernel.status();
    // The caller computes too: not where another of its threads does.
    Contender contender{"cpu", kernel->run, {}};
    contender.select = [&] { pin_to({cpus.front()}); };
    RETURN_IF_ERROR(enter(contender, false));
    host_at = static_cast<int>(contenders.size()) - 1;
  }
  const size_t first_clblast = contenders.size();
  if (options.clblast != nullptr) {
    ASSIGN_OR_RETURN(std::vector<ClBlast::Way> ways,
                     options.clblast->prepare(match_peer_case(program), ours->buffers(), session,
                                              options.clblast_folders));
    for (ClBlast::Way& way : ways) {
      const Contender contender =
          way.select ? on_device(way.name, std::move(way.enqueue), std::move(way.select))
                     : on_device(way.name, std::move(way.enqueue));
      const absl::Status entered = enter(contender, true);
      if (!entered.ok()) {
        result.wrong.emplace_back(entered.message());
        failed = absl::OkStatus();
      }
    }
  }
  const size_t end_clblast = contenders.size();
  ASSIGN_OR_RETURN(const std::unique_ptr<OpenClCall> copy,
                   fastest_copy(session, static_cast<int64_t>(result.bytes)));
  contenders.push_back(on_device("copy", [&] { return copy->enqueue(); }));
  copy_at = static_cast<int>(contenders.size()) - 1;

  InterleaveOptions interleaving;
  interleaving.budget_s = options.budget_s;
  interleaving.settle_s = kIdleSeconds;
  const std::vector<Series> series = interleave(contenders, interleaving);
  pin_to(cpus);
  RETURN_IF_ERROR(failed);
  const std::vector<double>& own = series[0].samples_us;
  result.time_us = series[0].time_us;
  if (host_at >= 0) {
    result.cpu_us = series[host_at].time_us.median;
    result.over_cpu = paired_ratio(series[host_at].samples_us, own);
  }
  for (size_t i = first_clblast; i < end_clblast; ++i) {
    const Estimate ratio = paired_ratio(series[i].samples_us, own);
    if (result.over_clblast && result.over_clblast->median <= ratio.median) continue;
    result.over_clblast = ratio;
    result.clblast_us = series[i].time_us.median;
    result.clblast_way = contenders[i].name;
  }
  result.copy_us = series[copy_at].time_us.median;
  result.over_copy = paired_ratio(series[copy_at].samples_us, own);
  return result;
}

nlohmann::json to_json(const DeviceResult& r) {
  nlohmann::json json = {{"row", r.row}, {"name", r.name}, {"bytes", r.bytes}, {"flops", r.flops},
                         {"time_us", to_json(r.time_us)}, {"copy_us", r.copy_us},
                         {"max_error", r.max_error}, {"wrong", r.wrong}, {"tuning", r.tuning}};
  if (r.over_cpu) json["cpu_us"] = r.cpu_us, json["over_cpu"] = to_json(*r.over_cpu);
  if (r.over_copy) json["over_copy"] = to_json(*r.over_copy);
  if (r.over_clblast) {
    json["clblast_us"] = r.clblast_us;
    json["clblast_way"] = r.clblast_way;
    json["over_clblast"] = to_json(*r.over_clblast);
  }
  return json;
}

}  // namespace lw
