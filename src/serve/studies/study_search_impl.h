// What study_search.cc (turns: look, queue, end) and study_search_state.cc (what is known of each
// workload) share.
#pragma once

#include <deque>
#include <set>
#include <utility>

#include "src/serve/queue/devices.h"
#include "src/serve/studies/study_search.h"

namespace lw {

inline constexpr int kBatch = 16;          // candidates, where the study does not say

// Said once, however often the study is taken up.
void note_last_resort(const std::string& why, StudyWorkloadRow* row);

// A workload of the study; `run` is there while it is searched for.
struct StudySearch::Workload {
  StudyWorkloadRow row;
  std::unique_ptr<Task> task;
  std::unique_ptr<SearchRun> run;
  // Measurements up to the floor are known; of those above, by id, these: with several daemons a
  // lesser id may be committed after a greater one, though not much later.
  int64_t floor = 0;
  std::set<int64_t> read;
  std::deque<std::pair<int64_t, int64_t>> marks;  // times and the greatest id then
  std::vector<Measurement> held;           // read, not shown: their trace is out
  bool has_begun = false;                  // its state counts what is stored
  uint64_t turn = 0;                       // when it was chosen last
  std::map<int64_t, std::vector<std::string>> out;  // traces of queued and leased jobs
  bool idle = false;                       // has nothing to issue until a result comes
  std::set<std::string> asked;             // agents beside whom another's word was asked for last
};

struct StudySearch::Seen {
  StudyRow study;
  std::vector<StudyWorkloadRow> workloads;
  std::set<int64_t> open;                  // jobs queued and leased
  std::vector<JobRow> unknown;             // of them, in no workload's `out`
  Capacity capacity;                       // of its devices that are there
};

}  // namespace lw
