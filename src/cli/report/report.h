// What the report says, gathered from the database and this machine, and its page.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/base/message.h"
#include "src/figures/format.h"
#include "src/measure/machine/doctor.h"
#include "src/measure/run/simulation.h"
#include "tuner_db/failures.h"
#include "tuner_db/time_kind.h"

namespace lw {

struct ReportPoint {
  double seconds = 0;                      // of tuning, all its runs one after the other
  int trials = 0;
  double best_us = 0;                      // of the verified incumbent
};

struct ReportTask {
  std::string words, name, target, id;
  int threads = 1, trials = 0, failed = 0;
  double flops = 0, bytes = 0;
  double best_us = 0, ci_low_us = 0, ci_high_us = 0;  // 0: none is valid
  double zero_us = 0;                      // the zero-trial answer; 0: not measured
  double seconds = 0;                      // of tuning
  double bound_us = 0;                     // 0: not measured here
  std::string bound_by;                    // "compute", "memory", "instructions"
  std::string roof;                        // of the peak that its points lie below; "": not known
  TimeKind time_kind = TimeKind::kMeasured;  // of its times
  std::optional<Simulation> simulation;    // of the best, where its machine is simulated here
  std::string trace;
  std::string last_resort;                 // last_resort_note() where the best is one; "": it is not
  std::vector<ReportPoint> curve;
  std::vector<FailureClass> failures;
};

// A peak of this machine: of one kind of multiply-adds, by so many threads.
struct PeakRoof {
  std::string name;                        // "f32", "bf16 x bf16 into f32"
  int threads = 1;
  double gflops = 0;
};

struct Report {
  std::string database, generated;
  std::vector<ReportTask> tasks;
  std::optional<DoctorReport> machine;     // null: not measured
  std::vector<PeakRoof> peaks;             // one for each kind and number of threads of the tasks
};

// One page without external resources.
std::string report_page(const Report& report);

// The parts of the page: charts as SVG; timelines are src/figures/timeline.h's.
std::string curve_chart(const std::vector<ReportTask>& tasks, bool against_trials);
std::string roofline_chart(const Report& report);

// A page of such a body: its style, and what points out a task that is under the pointer.
std::string html_page(const std::string& body);

}  // namespace lw
