#include "src/cli/report/explored.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "src/cli/report/report.h"
#include "src/figures/svg.h"

namespace lw {
namespace {

constexpr int kPlotWidth = 500, kPlotHeight = 290;

bool is_better(const ExploredMachine& a, const ExploredMachine& b) {
  bool better = a.time_us < b.time_us;
  if (a.time_us > b.time_us) return false;
  for (size_t i = 0; i < a.area.size(); ++i) {
    if (a.area[i].second > b.area[i].second) return false;
    better = better || a.area[i].second < b.area[i].second;
  }
  return better;
}

std::string settings(const ExploredMachine& machine, const std::vector<std::string>& fields) {
  std::string text;
  for (size_t i = 0; i < fields.size(); ++i) {
    text += concat(i == 0 ? "" : ", ", fields[i], " = ", machine.values[i]);
  }
  return text;
}

// What the values take, with room at both ends.
Scale scale_of(const std::vector<double>& values) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return {*low * 0.8, *high * 1.25, true};
}

// Time against the figure of area number `figure`; the front's machines joined.
std::string area_chart(const std::vector<ExploredMachine>& machines,
                       const std::vector<std::string>& fields, size_t figure) {
  std::vector<double> areas, times;
  for (const ExploredMachine& machine : machines) {
    if (machine.time_us == 0) continue;
    areas.push_back(machine.area[figure].second);
    times.push_back(machine.time_us);
  }
  if (times.empty()) return "<p class='empty'>No machine has a best of every workload.</p>\n";
  Chart chart(kPlotWidth, kPlotHeight, scale_of(areas), scale_of(times));
  chart.axes(machines[0].area[figure].first, "us");
  // What this figure alone buys: each faster than all that have no more of it.
  std::vector<std::pair<double, double>> steps;
  std::vector<size_t> order;
  for (size_t i = 0; i < machines.size(); ++i) {
    if (machines[i].time_us > 0) order.push_back(i);
  }
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const auto key = [&](size_t i) {
      return std::pair(machines[i].area[figure].second, machines[i].time_us);
    };
    return key(a) < key(b);
  });
  for (const size_t i : order) {
    const ExploredMachine& machine = machines[i];
    if (!steps.empty() && machine.time_us >= steps.back().second) continue;
    if (!steps.empty()) steps.emplace_back(machine.area[figure].second, steps.back().second);
    steps.emplace_back(machine.area[figure].second, machine.time_us);
  }
  chart.line(steps, "class='roof' stroke='var(--soft)'");
  // The front's above the others.
  std::stable_partition(order.begin(), order.end(),
                        [&](size_t i) { return !machines[i].on_front; });
  for (const size_t i : order) {
    const ExploredMachine& machine = machines[i];
    chart.dot(machine.area[figure].second, machine.time_us, machine.on_front ? 6 : 4,
              absl::StrFormat("class='point' data-task='%d' data-tip='%s' fill='%s'", i,
                              escape_html(settings(machine, fields) + " · " +
                                          micros(machine.time_us)),
                              machine.on_front ? "var(--one)" : "var(--more)"));
  }
  return chart.svg(concat("Time against ", machines[0].area[figure].first));
}

std::string table(const std::vector<ExploredMachine>& machines,
                  const std::vector<std::string>& fields) {
  std::string out = "<div class='card'><h2>Machines</h2><table><thead><tr>";
  for (const std::string& field : fields) out += "<th class='n'>" + escape_html(field) + "</th>";
  for (const auto& [name, value] : machines[0].area) out += concat("<th class='n'>", name, "</th>");
  out += "<th class='n'>time</th><th class='n'>of the first</th><th></th></tr></thead><tbody>\n";
  for (size_t i = 0; i < machines.size(); ++i) {
    const ExploredMachine& machine = machines[i];
    absl::StrAppendFormat(&out, "<tr data-task='%d'>", i);
    for (const std::string& value : machine.values) {
      out += "<td class='n'>" + escape_html(value) + "</td>";
    }
    for (size_t f = 0; f < machines[0].area.size(); ++f) {
      out += concat("<td class='n'>", f < machine.area.size() ? number(machine.area[f].second) : "",
                    "</td>");
    }
    if (machine.time_us > 0) {
      const double first = machines[0].time_us;
      absl::StrAppendFormat(&out, "<td class='n'>%s</td><td class='n'>%s</td><td>%s</td></tr>\n",
                            micros(machine.time_us),
                            first > 0 ? percent(machine.time_us / first) : "-",
                            machine.on_front ? "Pareto front" : "");
    } else {
      out += "<td class='n none'>none</td><td></td><td class='none'>" + escape_html(machine.why) +
             "</td></tr>\n";
    }
  }
  return out + "</tbody></table></div>\n";
}

}  // namespace

void mark_front(std::vector<ExploredMachine>& machines) {
  for (ExploredMachine& machine : machines) {
    machine.on_front =
        machine.time_us > 0 &&
        std::none_of(machines.begin(), machines.end(), [&](const ExploredMachine& other) {
          return other.time_us > 0 && is_better(other, machine);
        });
  }
}

std::string explored_page(const std::vector<ExploredMachine>& machines,
                          const std::vector<std::string>& fields, const std::string& what) {
  std::string body = "<h1>Loopwright</h1><p class='sub'>" + escape_html(what) + "</p>\n";
  body += "<div class='grid2'>\n";
  for (size_t figure = 0; figure < machines[0].area.size(); ++figure) {
    body += concat("<div class='card'><h2>Time against ", machines[0].area[figure].first,
                   "</h2><div class='key'><span><i style='background:var(--one)'></i>on the Pareto "
                   "front of all figures</span><span><i style='background:var(--more)'></i>others"
                   "</span></div>",
                   area_chart(machines, fields, figure), "</div>\n");
  }
  return html_page(body + "</div>\n" + table(machines, fields));
}

}  // namespace lw
