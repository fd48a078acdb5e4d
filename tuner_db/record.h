// A tuned schedule as compilers get it. Values and pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tuner_db/store.h"

namespace lw {

// How many traces of its key a record holds, itself included, whichever way it comes.
constexpr int kRecordTraces = 4;

// A tuned schedule as compilers get it: the best of a key, its samples counted.
struct ScheduleRecord {
  Key key;
  std::string name, source_words;  // of the workload: words as first asked for
  std::string structure;
  std::vector<int64_t> shape;
  double flops = 0, bytes = 0;
  std::string trace;  // text
  uint64_t kernel_hash = 0;
  double time_us = 0, ci_low_us = 0, ci_high_us = 0;
  TimeKind time_kind = TimeKind::kMeasured;  // of all its times
  int64_t samples = 0;
  bool verified = false;
  double max_rel_error = 0;
  std::string source;   // as Measurement's
  int64_t unix_ms = 0;  // when it was measured
  std::vector<RankedTrace> others;  // the next best traces of the key, best first
  bool operator==(const ScheduleRecord&) const = default;

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit({1, "key"}, self.key);
    visit({2, "name"}, self.name);
    visit({3, "source_words"}, self.source_words);
    visit({4, "family"}, self.structure);
    visit({5, "shape"}, self.shape);
    visit({6, "flops"}, self.flops);
    visit({7, "bytes"}, self.bytes);
    visit({8, "trace"}, self.trace);
    visit({9, "kernel_hash"}, self.kernel_hash);
    visit({10, "time_us"}, self.time_us);
    visit({11, "ci_low_us"}, self.ci_low_us);
    visit({12, "ci_high_us"}, self.ci_high_us);
    visit({13, "samples"}, self.samples);
    visit({14, "verified"}, self.verified);
    visit({15, "max_rel_error"}, self.max_rel_error);
    visit({16, "source"}, self.source);
    visit({17, "unix_ms"}, self.unix_ms);
    visit({18, "others"}, self.others);
    visit({19, "time_kind"}, self.time_kind);
  }
};

// The key as one string, a line a field; equal for equal keys only.
std::string key_text(const Key& key);

// What a record is by: sha256 of its key and trace, which decide the artifact. Timings do not
// enter, so that measuring again does not make another record of it.
std::string record_digest(const Key& key, std::string_view trace);

ScheduleRecord make_record(const WorkloadRow& workload, const BestRow& row);

}  // namespace lw
