// Cells are cut and padded by characters (code points), colors are put around them afterwards. The
// height is shared out: classes first, then studies and devices half each, one lending the other
// what it does not need.
#include "src/cli/service/fleet_view.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "schedules/targets/target.h"
#include "src/base/message.h"
#include "src/cli/service/service.h"
#include "src/figures/format.h"
#include "src/net/times.h"
#include "tuner_db/messages/messages.h"

namespace lw {
namespace {

namespace v1 = loopwright::v1;

enum Tint { kNone, kBold, kDim, kGood, kRun, kWarn, kBad };
constexpr const char* kCodes[] = {"", "\x1b[1m", "\x1b[2m", "\x1b[32m", "\x1b[36m", "\x1b[33m",
                                  "\x1b[31;1m"};

struct Cell {
  std::string text;
  Tint tint = kNone;
};
struct Grid {
  std::vector<Cell> titles;
  std::vector<std::vector<Cell>> rows;
  size_t flexible = 0;                     // the column that gives way when the screen is narrow
  std::vector<bool> right;
};

std::string printable(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const bool c1 =
        c == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    if (c1) ++i;
    out.push_back(c < 0x20 || c == 0x7F || c1 ? '?' : text[i]);
  }
  return out;
}

bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }
size_t characters(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), begins_character));
}

std::string cut(const std::string& text, size_t width) {
  if (characters(text) <= width) return text;
  if (width == 0) return "";
  size_t at = 0;
  for (size_t seen = 0; at < text.size(); ++at) {
    if (begins_character(text[at]) && seen++ == width - 1) break;
  }
  return text.substr(0, at) + "…";
}

std::string tinted(const std::string& text, Tint tint, const Screen& screen) {
  return screen.color && tint != kNone ? concat(kCodes[tint], text, "\x1b[0m") : text;
}

// A line of cells, cut to the screen as a whole.
std::string line_of(const std::vector<Cell>& cells, const std::vector<size_t>& widths,
                    const Grid& grid, const Screen& screen) {
  std::string line;
  size_t used = 0;
  for (size_t i = 0; i < cells.size(); ++i) {
    const size_t gap = i == 0 ? 0 : 2;
    size_t width = widths[i];
    if (screen.width > 0) {
      const size_t whole = static_cast<size_t>(screen.width);
      if (used + gap >= whole) break;
      width = std::min(width, whole - used - gap);
    }
    const std::string text = cut(cells[i].text, width);
    const std::string pad(width - characters(text), ' ');
    const bool last = i + 1 == cells.size();
    line += std::string(gap, ' ');
    if (grid.right[i]) line += pad;
    line += tinted(text, cells[i].tint, screen);
    if (!grid.right[i] && !last) line += pad;
    used += gap + width;
  }
  return line;
}

std::vector<std::string> lines_of(const Grid& grid, const Screen& screen, size_t most) {
  std::vector<size_t> widths;
  for (const Cell& title : grid.titles) widths.push_back(characters(title.text));
  for (const auto& row : grid.rows) {
    for (size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], characters(row[i].text));
  }
  size_t total = 2 * (widths.size() - 1);
  for (size_t width : widths) total += width;
  if (screen.width > 0 && total > static_cast<size_t>(screen.width)) {
    size_t& flexible = widths[grid.flexible];
    flexible = std::max<size_t>(
        12, flexible - std::min(flexible, total - static_cast<size_t>(screen.width)));
  }
  std::vector<std::string> lines = {line_of(grid.titles, widths, grid, screen)};
  for (const auto& row : grid.rows) {
    if (lines.size() == most && grid.rows.size() > most - 1 && most > 1) {
      lines.back() =
          tinted(absl::StrFormat("... and %d more", grid.rows.size() - most + 2), kDim, screen);
      break;
    }
    lines.push_back(line_of(row, widths, grid, screen));
  }
  return lines;
}

std::string span(double seconds) {
  if (seconds < 0) seconds = 0;
  if (seconds < 90) return absl::StrFormat("%.0f s", seconds);
  if (seconds < 5400) return absl::StrFormat("%.0f min", seconds / 60);
  return seconds < 129600 ? absl::StrFormat("%.1f h", seconds / 3600)
                          : absl::StrFormat("%.1f d", seconds / 86400);
}
double since(int64_t now_ms, const google::protobuf::Timestamp& time) {
  return static_cast<double>(now_ms - ms_of(time)) / 1e3;
}

// ---- studies

Cell state_of(const v1::Study& study) {
  switch (study.progress().state()) {
    case v1::STUDY_STATE_RUNNING: return {"running", kRun};
    case v1::STUDY_STATE_QUEUED: return {"queued", kWarn};
    case v1::STUDY_STATE_SUCCEEDED: return {"succeeded", kGood};
    case v1::STUDY_STATE_FAILED: return {"failed", kBad};
    case v1::STUDY_STATE_CANCELLED: return {"cancelled", kDim};
    default: return {"unknown", kDim};
  }
}

std::string bar(double share) {
  constexpr int kWidth = 10;
  const int full = static_cast<int>(std::lround(kWidth * std::clamp(share, 0.0, 1.0)));
  return std::string(full, '#') + std::string(kWidth - full, '.');
}

std::vector<Cell> study_row(const v1::Study& study, int64_t now_ms) {
  const v1::StudyProgress& progress = study.progress();
  double log_gain = 0;
  int gains = 0;
  for (const v1::WorkloadProgress& w : progress.workloads()) {
    if (w.best_us() <= 0 || w.zero_us() <= 0) continue;
    log_gain += std::log(w.zero_us() / w.best_us());
    ++gains;
  }
  std::string what = progress.workloads_size() > 0 ? progress.workloads(0).name() : study.name();
  if (progress.workloads_size() > 1)
    what += concat(" and ", progress.workloads_size() - 1, " more");
  if (!study.error().empty()) what += ": " + study.error();
  const double wanted = progress.trials_wanted();
  const bool one = progress.workloads_size() == 1;
  const int64_t end = study.has_end_time() ? ms_of(study.end_time()) : now_ms;
  return {
      state_of(study),
      {printable(what)},
      {printable(study.client()), kDim},
      {concat(bar(wanted > 0 ? progress.trials() / wanted : 0), " ", progress.trials(), "/",
              progress.trials_wanted())},
      {one ? micros(progress.workloads(0).best_us(),
                   from_proto(progress.workloads(0).time_kind())) : "-"},
      {gains > 0 ? absl::StrFormat("%.2fx", std::exp(log_gain / gains)) : "-"},
      {concat(progress.failed()), progress.failed() > 0 ? kWarn : kNone},
      {span(since(end, study.create_time()))},
      {progress.has_remaining() ? span(static_cast<double>(progress.remaining().seconds())) : "-"}};
}

Grid studies_grid(const FleetSnapshot& snapshot) {
  Grid grid{{{"STUDY", kBold}, {"workloads", kDim}, {"client", kDim}, {"progress", kDim},
             {"best", kDim}, {"gain", kDim}, {"failed", kDim}, {"time", kDim}, {"left", kDim}},
            {}, 1, {false, false, false, false, true, true, true, true, true}};
  std::vector<const v1::Study*> order;
  for (const v1::Study& study : snapshot.studies) order.push_back(&study);
  const auto rank = [](const v1::Study* study) {
    const v1::StudyState state = study->progress().state();
    return state == v1::STUDY_STATE_RUNNING ? 0 : state == v1::STUDY_STATE_QUEUED ? 1 : 2;
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](const auto* a, const auto* b) { return rank(a) < rank(b); });
  for (const v1::Study* study : order) grid.rows.push_back(study_row(*study, snapshot.now_ms));
  return grid;
}

// ---- devices

Cell state_of(const v1::DeviceStatus& device) {
  if (device.admission() == v1::DEVICE_ADMISSION_QUARANTINED) return {"quarantined", kBad};
  if (!device.online()) return {"offline", kBad};
  if (device.health() == v1::DEVICE_HEALTH_UNHEALTHY) return {"unhealthy", kBad};
  if (device.health() == v1::DEVICE_HEALTH_THROTTLED) return {"throttled", kWarn};
  if (device.admission() != v1::DEVICE_ADMISSION_OPEN) {
    return {enum_text(device.admission()), kWarn};
  }
  return device.held_size() > 0 ? Cell{"busy", kRun} : Cell{"idle", kGood};
}

std::string doing(const v1::DeviceStatus& device) {
  std::string text;
  for (const v1::HeldJob& job : device.held()) {
    const char* phase = job.phase() == v1::JOB_PHASE_MEASURING    ? " measuring"
                        : job.phase() == v1::JOB_PHASE_PREPARING ? " preparing"
                                                                 : "";
    text += concat(text.empty() ? "" : ", ", job.job(), phase);
  }
  return text.empty() ? device.reason() : text;
}

Grid devices_grid(const FleetSnapshot& snapshot) {
  Grid grid{{{"DEVICE", kBold}, {"name", kDim}, {"target", kDim}, {"doing", kDim}, {"jobs", kDim},
             {"failed", kDim}, {"heard of", kDim}},
            {}, 3, {false, false, false, false, true, true, true}};
  for (const v1::DeviceStatus& device : snapshot.devices) {
    const Cell state = state_of(device);
    std::string name = device.device().name();
    if (name.rfind("devices/", 0) == 0) name = name.substr(8);
    grid.rows.push_back(
        {state,
         {printable(name)},
         {printable(device.device().target().name()), kDim},
         {printable(doing(device)), state.tint == kBad ? kBad : kNone},
         {concat(device.jobs_done())},
         {concat(device.jobs_failed()), device.failures_in_row() > 0 ? kWarn : kNone},
         {span(since(snapshot.now_ms, device.last_seen())) + " ago"}});
  }
  return grid;
}

Grid classes_grid(const v1::Fleet& fleet) {
  Grid grid{{{"TARGET", kBold}, {"devices", kDim}, {"online", kDim}, {"idle", kDim},
             {"quarantined", kDim}, {"jobs waiting", kDim}, {"running", kDim}},
            {}, 0, {false, true, true, true, true, true, true}};
  for (const v1::Fleet::Class& c : fleet.classes()) {
    const std::string name =
        c.target_name().empty() ? c.target_id().substr(0, 12) : c.target_name();
    grid.rows.push_back({{printable(name)},
                         {concat(c.total())},
                         {concat(c.online()), c.online() < c.total() ? kWarn : kNone},
                         {concat(c.idle())},
                         {concat(c.quarantined()), c.quarantined() > 0 ? kBad : kNone},
                         {concat(c.queued())},
                         {concat(c.leased())}});
  }
  return grid;
}

// ---- the whole

std::vector<std::string> head(const FleetSnapshot& snapshot, const Screen& screen) {
  const v1::Fleet& fleet = snapshot.fleet;
  const auto fit = [&](const std::string& text) {
    return screen.width > 0 ? cut(text, static_cast<size_t>(screen.width)) : text;
  };
  std::vector<std::string> lines = {
      tinted(fit(concat("Loopwright ", printable(fleet.version()), "   ",
                        printable(snapshot.server), "   up ",
                        fleet.has_started() ? span(since(snapshot.now_ms, fleet.started())) : "-")),
             kBold, screen)};
  if (!fleet.problem().empty())
    lines.push_back(tinted(fit(printable(fleet.problem())), kBad, screen));
  lines.push_back(
      fit(concat("studies ", fleet.studies_running(), " running, ", fleet.studies_queued(),
                 " waiting   jobs ", fleet.jobs_leased(), " running, ", fleet.jobs_queued(),
                 " waiting, ", fleet.jobs_dead(), " given up")));
  std::string hour;
  std::vector<std::pair<std::string, int64_t>> verdicts(fleet.verdicts().begin(),
                                                        fleet.verdicts().end());
  std::sort(verdicts.begin(), verdicts.end());
  for (const auto& [verdict, count] : verdicts)
    hour += concat(hour.empty() ? "" : ", ", verdict, " ", count);
  lines.push_back(
      fit(concat("measurements ", fleet.measurements(), "   schedules ", fleet.schedules(),
                 "   last hour: ", hour.empty() ? "none" : printable(hour))));
  return lines;
}

}  // namespace

std::vector<std::string> fleet_lines(const FleetSnapshot& snapshot, const Screen& screen) {
  std::vector<std::string> lines = head(snapshot, screen);
  const Grid classes = classes_grid(snapshot.fleet), studies = studies_grid(snapshot),
             devices = devices_grid(snapshot);
  size_t rows[3] = {classes.rows.size() + 1, studies.rows.size() + 1, devices.rows.size() + 1};
  if (screen.height > 0) {
    const size_t fixed = lines.size() + 3;
    const size_t left = static_cast<size_t>(screen.height) > fixed
                            ? static_cast<size_t>(screen.height) - fixed : 0;
    rows[0] = std::min({rows[0], left / 3, size_t{6}});
    const size_t half = (left - rows[0]) / 2;
    const size_t wanted_studies = rows[1];
    rows[1] = std::min(rows[1], left - rows[0] - std::min(rows[2], half));
    rows[2] = std::min(rows[2], left - rows[0] - std::min(wanted_studies, rows[1]));
  }
  const Grid* grids[] = {&classes, &studies, &devices};
  for (int i = 0; i < 3; ++i) {
    if (rows[i] < 1) continue;
    lines.emplace_back();
    for (std::string& line : lines_of(*grids[i], screen, rows[i])) lines.push_back(std::move(line));
  }
  if (screen.height > 0 && lines.size() > static_cast<size_t>(screen.height)) {
    lines.resize(static_cast<size_t>(screen.height));
  }
  return lines;
}

}  // namespace lw
