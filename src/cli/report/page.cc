// The report's page: one file, no external resources, light or dark as the reader's system is. A
// task under the pointer is highlighted in every chart and in the table.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "src/cli/report/report.h"
#include "src/figures/svg.h"
#include "src/figures/timeline.h"

namespace lw {
namespace {

constexpr char kHead[] = R"html(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Loopwright report</title><style>
:root { --page: #f6f7f9; --card: #fff; --ink: #1b2430; --soft: #5b6776; --line: #e3e7ec;
  --one: #2563c9; --more: #c2570c; --mean: #1b2430; --good: #1a7f4b; --bad: #b3261e;
  --bar: #dbe6f8; --bus: #7fb2f0; --token: #e8a33d; --dispatch: #9b6bc9; --engine: #b8bec7;
  --full: #e3bfbc; }
@media (prefers-color-scheme: dark) { :root { --page: #12161c; --card: #1a2029; --ink: #e8ecf1;
  --soft: #9aa6b4; --line: #2c3541; --one: #6ea8fe; --more: #f4a259; --mean: #fff; --good: #5fcf93;
  --bad: #ff8a80; --bar: #24385a; --bus: #3f6aa8; --token: #d9932e; --dispatch: #b48ae0;
  --engine: #59636f; --full: #5e4341; } }
* { box-sizing: border-box }
body { margin: 0; padding: 32px 24px 64px; background: var(--page); color: var(--ink);
  font: 14px/1.5 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 1280px; margin: 0 auto }
h1 { font-size: 24px; margin: 0 } h2 { font-size: 15px; margin: 0 0 8px }
h3 { font-size: 13px; margin: 16px 0 0 } h3 ~ p { margin: 0; overflow-wrap: anywhere }
td p { margin: 0 }
.sub { color: var(--soft); margin: 2px 0 24px }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px }
.grid2 { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 460px), 1fr));
  gap: 16px }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 16px;
  margin-top: 16px; overflow-x: auto }
.tiles .card { margin: 0; padding: 12px 16px }
.tiles b { display: block; font-size: 22px; font-weight: 600; font-variant-numeric: tabular-nums }
.tiles span, .note { color: var(--soft); font-size: 12.5px }
svg { width: 100%; height: auto; display: block; font-family: inherit }
svg .grid { stroke: var(--line) } svg .axis { stroke: var(--soft) }
svg .tick { fill: var(--soft); font-size: 11px } svg .title { fill: var(--soft); font-size: 12px }
svg .label { fill: var(--ink); font-size: 11.5px }
.idle { fill: var(--page) } .state0 { fill: var(--one); background: var(--one) }
.state1 { fill: var(--bus); background: var(--bus) }
.state2 { fill: var(--token); background: var(--token) }
.state3 { fill: var(--dispatch); background: var(--dispatch) }
.state4 { fill: var(--engine); background: var(--engine) }
.state5 { fill: var(--full); background: var(--full) }
.limit { fill: var(--good); background: var(--good) } .key i[class] { height: 10px }
.curve { stroke-width: 1.4; opacity: .55 } .mean { stroke: var(--mean); stroke-width: 2.6 }
.roof { stroke-width: 1.3; opacity: .7; stroke-dasharray: 5 3 }
.point { opacity: .9; stroke: var(--card); stroke-width: 1.5 }
svg.pick .curve, svg.pick .point { opacity: .12 }
svg .curve.on { opacity: 1 !important; stroke-width: 3 }
svg .point.on { opacity: 1 !important; r: 8px }
.key { display: flex; flex-wrap: wrap; gap: 4px 18px; margin: 0 0 6px; color: var(--soft);
  font-size: 12.5px }
.key i { display: inline-block; width: 14px; height: 3px; border-radius: 2px; margin-right: 6px;
  vertical-align: middle }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }
th { text-align: left; color: var(--soft); font-weight: 500; font-size: 12.5px;
  white-space: nowrap }
th, td { padding: 6px 10px; border-bottom: 1px solid var(--line); vertical-align: middle }
td.n, th.n { text-align: right; white-space: nowrap }
tbody tr:hover, tr.on { background: var(--bar) }
td small { color: var(--soft) } code { font: 12px/1.5 ui-monospace, "DejaVu Sans Mono", monospace }
.meter { position: relative; min-width: 110px; height: 18px; background: var(--line);
  border-radius: 4px; overflow: hidden }
.meter i { position: absolute; inset: 0 auto 0 0; background: var(--one);
  opacity: .35 }
.meter span { position: absolute; inset: 0 6px 0 auto; font-size: 12px; line-height: 18px }
details { margin-top: 2px } summary { cursor: pointer; color: var(--soft); font-size: 12px }
.bars { display: grid; grid-template-columns: max-content 1fr max-content; gap: 6px 12px;
  align-items: center }
.bars i { display: block; height: 14px; border-radius: 3px; background: var(--bad); opacity: .75 }
.none { color: var(--bad) } .empty { color: var(--soft) }
#tip { position: fixed; pointer-events: none; background: var(--ink); color: var(--page);
  padding: 4px 9px; border-radius: 6px; font-size: 12.5px;
  max-width: 480px; display: none; z-index: 2 }
</style></head><body><main>
)html";

constexpr char kTail[] = R"html(<div id="tip"></div></main><script>
const tip = document.getElementById('tip');
function pick(id) {
  document.querySelectorAll('.on').forEach(e => e.classList.remove('on'));
  document.querySelectorAll('svg').forEach(e => e.classList.toggle('pick', id !== null));
  if (id === null) return;
  document.querySelectorAll(`[data-task="${id}"]`).forEach(e => e.classList.add('on'));
}
document.querySelectorAll('[data-task]').forEach(e => {
  e.addEventListener('mouseenter', () => pick(e.dataset.task));
  e.addEventListener('mouseleave', () => { pick(null); tip.style.display = 'none'; });
  e.addEventListener('mousemove', m => {
    if (!e.dataset.tip) return;
    tip.textContent = e.dataset.tip;
    tip.style.display = 'block';
    tip.style.left = Math.min(m.clientX + 14, innerWidth - tip.offsetWidth - 8) + 'px';
    tip.style.top = m.clientY + 16 + 'px';
  });
});
</script></body></html>
)html";

std::string tile(const std::string& value, const std::string& what) {
  return absl::StrFormat("<div class='card'><b>%s</b><span>%s</span></div>\n", value, what);
}

// The geometric mean of what `value` gives for the tasks where it is positive; 0 when none.
template <class Value>
double geomean(const std::vector<ReportTask>& tasks, const Value& value) {
  double sum = 0;
  int count = 0;
  for (const ReportTask& task : tasks) {
    const double v = task.best_us > 0 ? value(task) : 0;
    if (v <= 0) continue;
    sum += std::log(v);
    ++count;
  }
  return count == 0 ? 0 : std::exp(sum / count);
}

std::string tiles(const Report& report) {
  int trials = 0, failed = 0;
  double seconds = 0;
  for (const ReportTask& task : report.tasks) {
    trials += task.trials;
    failed += task.failed;
    seconds += task.seconds;
  }
  std::string out = "<div class='tiles'>\n";
  out += tile(concat(report.tasks.size()), report.tasks.size() == 1 ? "task" : "tasks");
  out += tile(concat(trials), concat("trials, ", failed, " failed"));
  out += tile(seconds < 120 ? number(seconds, 3) + " s" : number(seconds / 60, 3) + " min",
              "of tuning");
  const double bound =
      geomean(report.tasks, [](const ReportTask& t) { return t.bound_us / t.best_us; });
  if (bound > 0) out += tile(percent(bound), "of the bound, geometric mean");
  const double zero = geomean(report.tasks, [](const ReportTask& t) {
    return t.zero_us > 0 ? t.best_us / t.zero_us : 0;
  });
  if (zero > 0) out += tile(percent(zero), "of the final speed without any trial");
  return out + "</div>\n";
}

std::string meter(double fraction) {
  return absl::StrFormat("<div class='meter'><i style='width:%.1f%%'></i><span>%s</span></div>",
                         100 * std::clamp(fraction, 0.0, 1.0), percent(fraction));
}

std::string schedule(const std::string& trace) {
  if (trace.empty()) return "";
  return absl::StrFormat("<details><summary>schedule</summary><code>%s</code></details>",
                         absl::StrReplaceAll(escape_html(trace), {{"\n", "<br>"}}));
}

std::string table_row(const ReportTask& task, size_t index) {
  std::string out = absl::StrFormat(
      "<tr data-task='%d'><td><b>%s</b><br><small>%s</small>", index, escape_html(task.words),
      escape_html(task.target + ", " + task.id.substr(0, 12)));
  if (!task.last_resort.empty())
    absl::StrAppendFormat(&out, "<p class='note'>%s</p>", escape_html(task.last_resort));
  out += schedule(task.trace);
  absl::StrAppendFormat(&out, "</td><td class='n'>%d</td>", task.threads);
  if (task.best_us > 0) {
    const std::string spread = concat(micros(task.ci_low_us), " .. ", micros(task.ci_high_us));
    absl::StrAppendFormat(&out, "<td class='n'>%s<br><small>%s</small></td>",
                          micros(task.best_us),
                          task.time_kind == TimeKind::kMeasured
                              ? spread : std::string(time_kind_name(task.time_kind)));
    const double us = task.best_us;
    absl::StrAppendFormat(&out, "<td class='n'>%s</td><td class='n'>%s</td>",
                          task.flops > 0 ? number(task.flops / us / 1e3) : "-",
                          number(task.bytes / us / 1e3, 3));
    absl::StrAppendFormat(&out, "<td>%s</td>",
                          task.bound_us > 0
                              ? meter(task.bound_us / us) + "<small>" +
                                    task.bound_by + "</small>"
                              : "<small>not measured</small>");
  } else {
    out += "<td class='n none'>none valid</td><td class='n'>-</td><td class='n'>-</td><td></td>";
  }
  const double zero = task.best_us > 0 && task.zero_us > 0 ? task.best_us / task.zero_us : 0;
  absl::StrAppendFormat(&out,
                        "<td class='n'>%s</td><td class='n'>%d</td><td class='n'>%s s</td></tr>\n",
                        zero > 0 ? percent(zero) : "-", task.trials, number(task.seconds, 3));
  return out;
}

std::string bests_table(const Report& report) {
  std::string out =
      "<div class='card'><h2>Best of each task</h2><table><thead><tr><th>workload</th>"
      "<th class='n'>threads</th><th class='n'>best, 95 % interval</th><th class='n'>GFLOP/s</th>"
      "<th class='n'>GB/s</th><th>of the bound</th><th class='n'>zero-trial</th><th "
      "class='n'>trials</th>"
      "<th class='n'>tuned in</th></tr></thead><tbody>\n";
  for (size_t i = 0; i < report.tasks.size(); ++i) out += table_row(report.tasks[i], i);
  return out + "</tbody></table></div>\n";
}

std::string timeline_card(const ReportTask& task, int index) {
  const Simulation& call = *task.simulation;
  std::string out = absl::StrFormat(
      "<div class='card' data-task='%d'><h2>Timeline of %s</h2><p class='note'>%s, simulated: "
      "%s</p><div class='key'>",
      index, escape_html(task.words), escape_html(task.target), timeline_note(call));
  for (const TimelineColor& color : timeline_colors(call)) {
    absl::StrAppendFormat(&out, "<span><i class='%s'></i>%s</span>", color.look,
                          escape_html(color.meaning));
  }
  return concat(out, "</div>\n", timeline_chart(call, concat("data-task='", index, "'")),
                "</div>\n");
}

// A class of failures over all tasks.
struct ClassTotal {
  const FailureClass* example;             // of the task that has most of it
  const ReportTask* task;
  int count = 0, tasks = 0;
};

std::vector<ClassTotal> class_totals(const std::vector<ReportTask>& tasks) {
  std::vector<ClassTotal> totals;
  for (const ReportTask& task : tasks) {
    for (const FailureClass& failure : task.failures) {
      auto at = std::find_if(totals.begin(), totals.end(), [&](const ClassTotal& total) {
        return total.example->name == failure.name;
      });
      if (at == totals.end()) at = totals.insert(at, {&failure, &task});
      if (failure.count > at->example->count) at->example = &failure, at->task = &task;
      at->count += failure.count;
      ++at->tasks;
    }
  }
  std::stable_sort(totals.begin(), totals.end(),
                   [](const ClassTotal& a, const ClassTotal& b) { return a.count > b.count; });
  return totals;
}

std::string class_name(const ClassTotal& total) {
  return absl::StrReplaceAll(escape_html(total.example->name), {{"_", " "}});
}

// What `tune` says of a class: an example, its schedule, and what to do.
std::string class_example(const ClassTotal& total) {
  const FailureClass& failure = *total.example;
  return absl::StrFormat(
      "<h3>%s: %d, of %d %s</h3><p>e.g. <b>%s</b> <small>%s, %d %s</small><br>%s</p>%s"
      "<p class='note'>%s</p>\n",
      class_name(total), total.count, total.tasks, total.tasks == 1 ? "workload" : "workloads",
      escape_html(total.task->words), escape_html(total.task->target), total.task->threads,
      total.task->threads == 1 ? "thread" : "threads", escape_html(failure.example.detail),
      schedule(failure.example.trace), escape_html(failure_advice(failure)));
}

std::string failures(const Report& report) {
  const std::vector<ClassTotal> totals = class_totals(report.tasks);
  std::string out = "<div class='card'><h2>Failed trials by class</h2>";
  if (totals.empty()) return out + "<p class='empty'>No trial failed.</p></div>\n";
  out += "<div class='bars'>\n";
  for (const ClassTotal& total : totals) {
    absl::StrAppendFormat(&out, "<span>%s</span><i style='width:%.1f%%'></i><span>%d</span>\n",
                          class_name(total), 100.0 * total.count / totals[0].count, total.count);
  }
  out += "</div>\n";
  for (const ClassTotal& total : totals) out += class_example(total);
  return out + "</div>\n";
}

std::string machine_card(const DoctorReport& machine) {
  std::string out = "<div class='card'><h2>This machine</h2><table><tbody>\n";
  absl::StrAppendFormat(&out,
                        "<tr><td>processor</td><td>%s, %d cores, %.2f GHz measured</td></tr>\n",
                        escape_html(machine.cpu), machine.cores, machine.clock_ghz);
  for (const DoctorReport::Peak& peak : machine.peaks) {
    absl::StrAppendFormat(&out, "<tr><td>peak %s, %d thread%s</td><td>%s GFLOP/s</td></tr>\n",
                          std::string(type_name(peak.type)), peak.threads,
                          peak.threads == 1 ? "" : "s", number(peak.gflops));
  }
  for (const DoctorReport::Level& level : machine.levels) {
    absl::StrAppendFormat(&out, "<tr><td>%s, %d thread%s</td><td>read %s, copy %s GB/s</td></tr>\n",
                          escape_html(level.name), level.threads, level.threads == 1 ? "" : "s",
                          number(level.read, 3), number(level.copy, 3));
  }
  for (const std::string& problem : machine.problems) {
    absl::StrAppendFormat(&out, "<tr><td class='none'>note</td><td>%s</td></tr>\n",
                          escape_html(problem));
  }
  return out + "</tbody></table></div>\n";
}

std::string key(const Report& report) {
  bool one = false, more = false;
  for (const ReportTask& task : report.tasks) (task.threads == 1 ? one : more) = true;
  std::string out = "<div class='key'>";
  if (one) out += "<span><i style='background:var(--one)'></i>1 thread</span>";
  if (more) out += "<span><i style='background:var(--more)'></i>several threads</span>";
  return out;
}

}  // namespace

std::string html_page(const std::string& body) { return kHead + body + kTail; }

std::string report_page(const Report& report) {
  const std::string legend = key(report);
  const std::string curve_legend =
      legend + (report.tasks.size() > 1
                    ? "<span><i style='background:var(--mean)'></i>geometric mean</span></div>"
                    : "</div>");
  std::string out;
  absl::StrAppendFormat(&out, "<h1>Loopwright</h1><p class='sub'>%s · %s</p>\n",
                        escape_html(report.database), report.generated);
  out += tiles(report);
  out += "<div class='grid2'>\n<div class='card'><h2>Best so far against time</h2>" + curve_legend +
         curve_chart(report.tasks, false) +
         "</div>\n<div class='card'><h2>Best so far against trials</h2>" + curve_legend +
         curve_chart(report.tasks, true) + "</div>\n</div>\n";
  out += "<div class='card'><h2>Roofline</h2>" + legend + "</div>" + roofline_chart(report) +
         "<p class='note'>Dashed: what this machine was measured to reach now, for each type that "
         "appears. A point above its roof was measured in another minute or holds its data in a "
         "nearer cache.</p></div>\n";
  out += bests_table(report);
  for (size_t i = 0; i < report.tasks.size(); ++i) {
    if (report.tasks[i].simulation) out += timeline_card(report.tasks[i], static_cast<int>(i));
  }
  out += "<div class='grid2'>\n" + failures(report);
  if (report.machine) out += machine_card(*report.machine);
  return html_page(out + "</div>\n");
}

}  // namespace lw
