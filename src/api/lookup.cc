#include "src/api/lookup.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "src/api/task.h"
#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/message.h"
#include "src/lower/lower.h"
#include "src/search/search.h"

namespace lw {
namespace {

using Json = nlohmann::ordered_json;

// One way to use a record.
struct Use {
  size_t candidate = 0;
  Sample sample;
  double draft = 0;
  bool adapted = false;
  bool measured = false;  // this trace, for this workload with these threads, on a like machine
};

bool same_structure(const Trace& a, const Trace& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Step& x, const Step& y) {
    return x.kind == y.kind && x.names == y.names;
  });
}

bool same_kinds(const Trace& a, const Trace& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Step& x, const Step& y) { return x.kind == y.kind; });
}

class Settling {
 public:
  Settling(const Task& task, std::vector<Match> candidates, const LookupOptions& options)
      : task_(task), candidates_(std::move(candidates)), options_(options), start_(task.start()) {
    start_.stop = options.stop;
  }

  // Beside a key's best that does not apply stand others, verified like it: its record with their
  // traces.
  absl::StatusOr<LookupAnswer> run() {
    absl::StatusOr<LookupAnswer> answer = settle_among(0);
    if (!absl::IsNotFound(answer.status())) return answer;
    const size_t count = candidates_.size();
    for (size_t i = 0; i < count; ++i) {
      if (candidates_[i].rung > Rung::kLoose) continue;
      const std::shared_ptr<const ScheduleRecord> best = candidates_[i].record;
      for (const RankedTrace& other : best->others) {
        ScheduleRecord record = *best;
        record.trace = other.trace;
        record.time_us = record.ci_low_us = record.ci_high_us = other.time_us;
        record.kernel_hash = 0;            // not said
        Match match = candidates_[i];
        match.record = std::make_shared<const ScheduleRecord>(std::move(record));
        candidates_.push_back(std::move(match));
      }
    }
    return candidates_.size() == count ? answer : settle_among(count);
  }

 private:
  // Those from `first` on.
  absl::StatusOr<LookupAnswer> settle_among(size_t first) {
    proposals_.clear();
    for (size_t i = first; i < candidates_.size(); ++i) {
      propose(i);
      RETURN_IF_ERROR(options_.stop.status("the look-up"));
    }
    // A measurement knows more than the draft; of several the nearest machine's, as they came.
    std::stable_sort(proposals_.begin(), proposals_.end(), [](const Use& a, const Use& b) {
      if (a.measured != b.measured) return a.measured;
      return !a.measured && a.draft < b.draft;
    });
    for (Use& proposal : proposals_) {
      absl::StatusOr<Kernel> kernel = lower(proposal.sample.nest);
      RETURN_IF_ERROR(options_.stop.status("the look-up"));
      if (kernel.ok()) return answer(proposal, *std::move(kernel));
      note(proposal.candidate, kernel.status());
    }
    return absl::NotFoundError(absl::StrJoin(notes_, "; "));
  }

  void note(size_t candidate, const absl::Status& why) {
    const ScheduleRecord& record = *candidates_[candidate].record;
    notes_.push_back(concat("record ", record_digest(record.key, record.trace).substr(0, 12), " (",
                            record.source_words, ") does not apply: ", std::string(why.message())));
  }

  void propose(size_t index) {
    const Match& candidate = candidates_[index];
    const absl::StatusOr<Trace> trace = parse_trace(candidate.record->trace);
    if (!trace.ok()) return note(index, trace.status());
    absl::StatusOr<Nest> nest = replay(start_, *trace);
    if (nest.ok()) {
      const double draft = draft_us(*nest);
      const bool measured =
          is_timed(candidate.record->time_kind) && is_of_this(*candidate.record);
      proposals_.push_back({index, {*trace, *std::move(nest)}, draft, false, measured});
    }
    const bool below = candidate.rung > Rung::kLoose;
    if (!nest.ok() && is_of_this(*candidate.record) && add_renamed(index, *trace)) return;
    if (below || !nest.ok()) adapt_to_space(index, *trace);
    if (!nest.ok() && (proposals_.empty() || proposals_.back().candidate != index)) {
      note(index, nest.status());
    }
  }

  // A workload is its program up to names, a trace has them: where it was tuned as another program that
  // calls its tensors or axes otherwise, the same steps by our names make the very kernel that was
  // measured. False: they do not.
  bool add_renamed(size_t index, const Trace& trace) {
    const ScheduleRecord& record = *candidates_[index].record;
    if (record.kernel_hash == 0) return false;
    if (space_.empty()) space_ = make_space(start_);
    for (const Sketch& sketch : space_) {
      if (!same_kinds(sketch.steps, trace)) continue;
      absl::StatusOr<Sample> sample = adapt(start_, sketch, trace);
      if (!sample.ok()) continue;
      const absl::StatusOr<Kernel> kernel = lower(sample->nest);
      if (!kernel.ok() || hash(*kernel) != record.kernel_hash) continue;
      const double draft = draft_us(sample->nest);
      proposals_.push_back({index, *std::move(sample), draft, false, is_timed(record.time_kind)});
      return true;
    }
    return false;
  }

  void adapt_to_space(size_t index, const Trace& trace) {
    // An exact record that does not replay is broken: the next rung, not a repaired one.
    if (candidates_[index].rung == Rung::kExact) return;
    if (space_.empty()) space_ = make_space(start_);
    const bool known = std::any_of(space_.begin(), space_.end(), [&](const Sketch& sketch) {
      return same_structure(sketch.steps, trace);
    });
    for (const Sketch& sketch : space_) {
      if (known && !same_structure(sketch.steps, trace)) continue;
      absl::StatusOr<Sample> sample = adapt(start_, sketch, trace);
      if (!sample.ok()) continue;
      const double draft = draft_us(sample->nest);
      proposals_.push_back({index, *std::move(sample), draft, true, false});
    }
  }

  double best_draft() const {
    double best = proposals_.front().draft;
    for (const Use& proposal : proposals_) best = std::min(best, proposal.draft);
    if (!options_.zero_trial) return best;
    const absl::StatusOr<Proposal> zero = lw::zero_trial(task_, options_.stop);
    return zero.ok() && zero->draft_us > 0 ? std::min(best, zero->draft_us) : best;
  }

  bool is_of_this(const ScheduleRecord& record) const {
    return record.key.workload == task_.key().workload && record.key.threads == task_.key().threads;
  }

  // What the record's time per operation comes to on this task; 0: not known.
  double time_here(const ScheduleRecord& record) const {
    const WorkloadRow& asked = task_.workload();
    if (record.key.workload == task_.key().workload) return record.time_us;
    if (asked.flops > 0 && record.flops > 0) return record.time_us * asked.flops / record.flops;
    return record.bytes > 0 ? record.time_us * asked.bytes / record.bytes : 0;
  }

  // The best time known of what compares with the record's, measured for this very task if any was;
  // 0: nothing was measured.
  double best_measured(const ScheduleRecord& like) const {
    double best = 0;
    bool of_this = false;
    for (const Match& candidate : candidates_) {
      const ScheduleRecord& record = *candidate.record;
      const double us = time_here(record);
      const bool compares = is_timed(record.time_kind) && record.time_kind == like.time_kind &&
                            record.key.target == like.key.target &&
                            record.key.threads == like.key.threads && us > 0;
      if (!compares) continue;
      if (is_of_this(record) && !of_this) best = 0, of_this = true;
      if (is_of_this(record) == of_this && (best == 0 || us < best)) best = us;
    }
    return best;
  }

  LookupAnswer answer(Use& chosen, Kernel kernel) {
    const Match& candidate = candidates_[chosen.candidate];
    const ScheduleRecord& record = *candidate.record;
    LookupAnswer out;
    out.outcome = candidate.rung;
    out.record = candidate.record;
    out.trace = to_text(chosen.sample.trace);
    out.adapted = chosen.adapted && out.trace != record.trace;
    out.distance = candidate.distance;
    out.stale = candidate.stale;
    // No estimate stands against a time that was measured.
    const bool estimated = candidate.rung > Rung::kLoose && !chosen.measured;
    const double slower = estimated ? chosen.draft / best_draft() : 1;
    out.predicted_loss = slower - 1;
    if (const double own_us = time_here(record); own_us > 0) {
      out.predicted_us = own_us * slower;
      const double best_us = best_measured(record);
      if (best_us > 0) out.predicted_loss = std::max(0.0, *out.predicted_us / best_us - 1);
    }
    out.notes = std::move(notes_);
    chosen.sample.nest.stop = Stop();
    out.nest = std::make_shared<const Nest>(std::move(chosen.sample.nest));
    out.kernel = std::make_shared<const Kernel>(std::move(kernel));
    return out;
  }

  const Task& task_;
  std::vector<Match> candidates_;
  const LookupOptions& options_;
  Nest start_;                             // the task's, with the stop
  std::vector<Sketch> space_;
  std::vector<Use> proposals_;
  std::vector<std::string> notes_;
};

Json record_json(const ScheduleRecord& r) {
  Json others = Json::array();
  for (const RankedTrace& other : r.others) {
    others.push_back({{"trace", other.trace}, {"time_us", other.time_us}});
  }
  return {{"workload", r.source_words},
          {"canonical_sha256", r.key.workload},
          {"target_sha256", r.key.target},
          {"backend", r.key.backend},
          {"threads", r.key.threads},
          {"cache", r.key.cache},
          {"objective", r.key.objective},
          {"digest", record_digest(r.key, r.trace)},
          {"trace", r.trace},
          {"source", r.source},
          {"time_us", r.time_us},
          {"time_kind", time_kind_name(r.time_kind)},
          {"ci_us", {r.ci_low_us, r.ci_high_us}},
          {"gflops", r.time_us > 0 ? r.flops / r.time_us / 1e3 : 0},
          {"samples", r.samples},
          {"verified", r.verified},
          {"max_rel_error", r.max_rel_error},
          {"unix_ms", r.unix_ms},
          {"others", others}};
}

std::string dump(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

double LookupAnswer::time_us() const { return record == nullptr ? 0 : record->time_us; }
std::string_view LookupAnswer::time_kind() const {
  return record == nullptr ? "" : time_kind_name(record->time_kind);
}
std::string LookupAnswer::source_words() const {
  return record == nullptr ? "" : record->source_words;
}

LookupRequest request_of(const Task& task) {
  return {task.key(), task.workload().structure, task.workload().shape, task.target()};
}

absl::StatusOr<LookupAnswer> settle(const Task& task, const std::vector<Match>& candidates,
                                    const LookupOptions& options) {
  ASSIGN_OR_RETURN(LookupAnswer answer, Settling(task, candidates, options).run());
  if (options.ladder.now_ms > 0) answer.age_ms = options.ladder.now_ms - answer.record->unix_ms;
  return answer;
}

absl::StatusOr<Proposal> zero_trial(const Task& task, const Stop& stop) {
  SearchOptions options;
  options.stop = stop;
  Search search(task.start(), options, first_model(task.start()));
  return search.zero_trial();
}

absl::StatusOr<LookupAnswer> default_answer(const Task& task, const LookupOptions& options) {
  LookupAnswer answer;
  if (!options.zero_trial) return answer;
  ASSIGN_OR_RETURN(const Proposal zero, zero_trial(task, options.stop));
  answer.trace = zero.text;
  ASSIGN_OR_RETURN(Nest nest, replay(task.start(), zero.trace));
  ASSIGN_OR_RETURN(Kernel kernel, lower(nest));
  answer.nest = std::make_shared<const Nest>(std::move(nest));
  answer.kernel = std::make_shared<const Kernel>(std::move(kernel));
  return answer;
}

absl::StatusOr<LookupAnswer> look_up(const Task& task, const RecordSource& source,
                                     const LookupOptions& options) {
  const LookupRequest request = request_of(task);
  LookupOptions rest = options;
  if (rest.ladder.now_ms == 0) rest.ladder.now_ms = unix_ms();
  std::vector<std::string> notes;
  while (rest.ladder.highest < Rung::kDefault) {
    ASSIGN_OR_RETURN(const std::vector<Match> candidates, climb(request, source, rest.ladder));
    if (candidates.empty()) break;
    absl::StatusOr<LookupAnswer> answer = settle(task, candidates, rest);
    if (answer.ok()) {
      answer->notes.insert(answer->notes.begin(), notes.begin(), notes.end());
      return answer;
    }
    if (!absl::IsNotFound(answer.status())) return answer.status();
    notes.push_back(std::string(answer.status().message()));
    rest.ladder.highest = static_cast<Rung>(static_cast<int>(candidates[0].rung) + 1);
  }
  ASSIGN_OR_RETURN(LookupAnswer answer, default_answer(task, rest));
  answer.notes = std::move(notes);
  return answer;
}

Choice as_choice(const LookupAnswer& answer) {
  Choice choice;
  choice.outcome = rung_name(answer.outcome);
  choice.trace = answer.trace;
  choice.nest = answer.nest;
  choice.kernel = answer.kernel;
  if (answer.outcome != Rung::kExact) {
    choice.predicted_loss = answer.predicted_loss;
  } else {
    const ScheduleRecord& record = *answer.record;
    Measurement m;
    m.trace = record.trace;
    m.kernel_hash = record.kernel_hash;
    m.time_us = record.time_us;
    m.ci_low_us = record.ci_low_us;
    m.ci_high_us = record.ci_high_us;
    m.time_kind = record.time_kind;
    m.verified = record.verified;
    m.max_rel_error = record.max_rel_error;
    m.source = record.source;
    m.unix_ms = record.unix_ms;
    choice.measurement = std::make_shared<const Measurement>(std::move(m));
  }
  return choice;
}

std::string to_json(const ScheduleRecord& record) { return dump(record_json(record)); }

std::string to_json(const LookupAnswer& answer) {
  const auto optional = [](const auto& value) { return value ? Json(*value) : Json(); };
  return dump({{"outcome", std::string(rung_name(answer.outcome))},
               {"record", answer.record == nullptr ? Json() : record_json(*answer.record)},
               {"trace", answer.trace},
               {"adapted", answer.adapted},
               {"distance", answer.distance},
               {"stale", answer.stale},
               {"age_ms", optional(answer.age_ms)},
               {"predicted_loss", optional(answer.predicted_loss)},
               {"predicted_us", optional(answer.predicted_us)},
               {"notes", answer.notes}});
}

}  // namespace lw
