// What a tune says while it runs: a live line on a terminal, a plain line every few seconds in a
// pipe, and with -v one line per measurement once it is stored; or for programs, by --progress json, a
// document on a line after every batch. All on stderr.
#pragma once

#include <string>

#include "loopwright/tuning.h"
#include "src/cli/common.h"

namespace lw {

class Progress {
 public:
  // `peak_gflops` 0: not known. `store` and `task` outlive it. REQUIRES: the task was put.
  // `name`: of a workload that shares its budget with others. `json`: documents, also with -q.
  Progress(const Output& output, const Task& task, const Store& store, const TuningOptions& budget,
           double peak_gflops, bool json, std::string name = "");
  ~Progress();                             // leaves the terminal's cursor on an empty line
  void update(const TuneProgress& progress);

 private:
  std::string line(const TuneProgress& progress) const;
  void announce();

  const Output& output_;
  const Task& task_;
  const Store& store_;
  TuningOptions budget_;
  std::string name_;
  double useful_flops_, peak_gflops_;
  bool json_, terminal_, shown_ = false;
  double last_line_s_ = 0;
  int64_t last_id_ = 0;
};

}  // namespace lw
