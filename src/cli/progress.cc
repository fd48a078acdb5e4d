#include "src/cli/progress.h"

#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <utility>

#include "absl/strings/str_format.h"
#include "src/api/task.h"
#include "src/expr/work/work.h"

namespace lw {
namespace {

constexpr double kSecondsBetweenLines = 3;

}  // namespace

Progress::Progress(const Output& output, const Task& task, const Store& store,
                   const TuningOptions& budget, double peak_gflops, bool json,
                   std::string name)
    : output_(output), task_(task), store_(store), budget_(budget), name_(std::move(name)),
      useful_flops_(count_flops(*task.program()).useful), peak_gflops_(peak_gflops),
      json_(json),
      terminal_(isatty(STDERR_FILENO) != 0 && !json && !output.quiet && !output.verbose) {
  if (!output.verbose) return;
  if (const auto stored = store.measurements(task.key()); stored.ok() && !stored->empty()) {
    last_id_ = stored->back().id;
  }
}

Progress::~Progress() {
  if (terminal_ && shown_) std::cerr << "\r\x1b[K" << std::flush;
}

std::string Progress::line(const TuneProgress& p) const {
  std::string text = name_.empty() ? absl::StrFormat("%d/%d trials", p.trials, budget_.trials)
                                   : absl::StrFormat("%s  %d trials", name_, p.trials);
  if (p.failed > 0) text += absl::StrFormat(" (%d failed)", p.failed);
  if (p.best_us > 0) {
    text += "  best " + micros(p.best_us);
    const double gflops = useful_flops_ / p.best_us / 1e3;
    if (useful_flops_ > 0) text += "  " + number(gflops) + " GFLOP/s";
    if (useful_flops_ > 0 && peak_gflops_ > 0)
      text += " = " + percent(gflops / peak_gflops_) + " of peak";
  }
  text += absl::StrFormat("  %.0f candidates/s", p.candidates_per_s);
  if (!name_.empty()) return text;
  // Whichever budget ends first, at the pace so far.
  double left = budget_.seconds - p.elapsed_s;
  if (p.trials > 0 && p.elapsed_s > 0) {
    left = std::min(left, p.elapsed_s / p.trials * (budget_.trials - p.trials));
  }
  return text + absl::StrFormat("  %.0f s left", std::max(0.0, left));
}

void Progress::update(const TuneProgress& progress) {
  if (json_) {
    const Json document = {{"workload", name_.empty() ? task_.workload().source_words : name_},
                           {"trials", progress.trials},
                           {"failed", progress.failed},
                           {"best_us", progress.best_us > 0 ? Json(progress.best_us) : Json()},
                           {"elapsed_s", progress.elapsed_s},
                           {"candidates_per_s", progress.candidates_per_s}};
    std::cerr << document.dump(-1, ' ', false, Json::error_handler_t::replace) << std::endl;
    return;
  }
  if (output_.quiet) return;
  if (output_.verbose) return announce();
  if (terminal_) {
    std::cerr << "\r\x1b[K" << line(progress) << std::flush;
    shown_ = true;
  } else if (progress.elapsed_s - last_line_s_ >= kSecondsBetweenLines) {
    std::cerr << line(progress) << std::endl;
    last_line_s_ = progress.elapsed_s;
  }
}

void Progress::announce() {
  const absl::StatusOr<std::vector<Measurement>> stored = store_.measurements(task_.key());
  if (!stored.ok()) return;                // the tune itself meets the error next
  for (const Measurement& m : *stored) {
    if (m.id <= last_id_) continue;
    last_id_ = m.id;
    std::cerr << absl::StrFormat("stored %d  %-11s %10s  %-8s ", m.id, verdict_name(m.verdict),
                                 micros(m.time_us, m.time_kind), m.source)
              << trace_as_line(m.trace) << (m.detail.empty() ? "" : "  [" + m.detail + "]") << "\n";
  }
  std::cerr << std::flush;
}

}  // namespace lw
