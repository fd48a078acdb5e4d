// To lower a trace takes 0.2 ms for a matrix product and some 20 ms for the largest programs: seconds to
// minutes for all of a message of 10,000 records. So of each key those are looked into that look-ups
// would give out if there were no others: the best of the message, and the next ones beside it. Whoever
// comes to lead later than that, when these are withdrawn, say, is met by clients that try the next best.
#include "src/serve/studies/door.h"

#include <chrono>
#include <map>
#include <set>

#include "absl/strings/match.h"
#include "schedules/steps.h"
#include "schedules/targets/family.h"
#include "schedules/targets/identity.h"
#include "src/api/task.h"
#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/hash.h"
#include "src/base/message.h"
#include "src/expr/expr.h"
#include "src/expr/language/text.h"
#include "src/lower/lower.h"
#include "src/measure/judge/plausible.h"
#include "src/serve/messages/errors.h"
#include "tuner_db/best.h"
#include "tuner_db/invariants.h"
#include "tuner_db/key_terms.h"
#include "tuner_db/ladder/ladder.h"
#include "tuner_db/messages/records.h"
#include "tuner_db/workload_row.h"

namespace lw {
namespace {

constexpr std::chrono::seconds kTraceFor(2), kMessageFor(30);
constexpr size_t kMostDoubts = 20;         // told one by one
constexpr double kWinogradSaves = 4;       // of the products, F(4, 3) on images

std::string record_field(int64_t number, std::string_view field) {
  return concat("records[", number, "].", field);
}

// Whether the words name an operator of the library: no file of this machine is opened for a caller.
bool names_library(const std::string& words) {
  const std::string first = words.substr(0, words.find_first_of(" \t\n"));
  return !first.empty() && !absl::StrContains(first, ":") && !absl::EndsWith(first, ".te");
}

// Its program, by the names that traces use; null: nobody has given it.
std::shared_ptr<const Program> named_program(const WorkloadRow& row) {
  if (row.program.empty() && !names_library(row.source_words)) return nullptr;
  absl::StatusOr<Program> program = reload_program(row);
  return program.ok() ? std::make_shared<const Program>(*std::move(program)) : nullptr;
}

bool may_lead(const Measurement& m) {
  return is_pooled(m) && m.verdict == Verdict::kOk && m.verified;
}

// Of the measurements of a key one of each trace that would be given out, were they all that there is.
std::vector<size_t> leaders_of(const std::vector<Measurement>& measurements) {
  std::map<std::string_view, size_t> index;
  std::vector<size_t> first;               // by trace
  std::vector<std::vector<const Measurement*>> of_trace;
  for (size_t i = 0; i < measurements.size(); ++i) {
    const auto [place, is_new] = index.emplace(measurements[i].trace, first.size());
    if (is_new) {
      first.push_back(i);
      of_trace.emplace_back();
    }
    of_trace[place->second].push_back(&measurements[i]);
    if (may_lead(measurements[i])) first[place->second] = i;
  }
  std::vector<size_t> places;              // of the traces, in their order
  std::vector<Pool> pools;
  for (const auto& [trace, place] : index) {
    places.push_back(first[place]);
    pools.push_back(pool(of_trace[place]));
  }
  const int64_t best = best_of(pools);
  if (best < 0) return {};
  std::vector<size_t> leaders = {places[static_cast<size_t>(best)]};
  for (int64_t next : next_best(pools, best, kRecordTraces - 1)) {
    leaders.push_back(places[static_cast<size_t>(next)]);
  }
  return leaders;
}

}  // namespace

struct Door::Asked {
  Key key;                                 // its target by identity
  WorkloadRow row;
  std::shared_ptr<const Target> target;
  std::shared_ptr<const Program> program;  // by its names; null: not known
};

Door::Visit::Visit(Door& door, const Stop& stop)
    : door_(door), caller_(stop), message_(stop.before(Stop::Clock::now() + kMessageFor)) {}

absl::Status Door::Visit::is_over() const {
  RETURN_IF_ERROR(caller_.status("the check of the records"));
  if (!message_.asked()) return absl::OkStatus();
  return bad_field("records", "what they hold takes more than 30 s to check: send fewer at once");
}

absl::Status Door::Visit::correct_workload(int number, WorkloadRow* row) {
  const std::string name = row->name, words = row->source_words;
  const std::string said = sha256(concat(row->id, "\n", row->canonical_text.size(), "\n",
                                         row->canonical_text, row->program));
  std::optional<std::shared_ptr<const WorkloadRow>> known = door_.rows_.find(said);
  if (!known.has_value()) {
    WorkloadRow right = *row;
    if (absl::Status status = correct(&right); !status.ok()) {
      return bad_field(record_field(number, "workload"), std::string(status.message()));
    }
    known = std::make_shared<const WorkloadRow>(std::move(right));
    door_.rows_.put(said, *known, (*known)->canonical_text.size() + (*known)->program.size() + 1000);
  }
  *row = **known;
  row->source_words = words;
  if (row->program.empty()) row->name = name;
  return is_over();
}

absl::StatusOr<Door::Asked> Door::ask(const Records& records, const Key& key) const {
  Asked asked;
  asked.key = stored_key(store_, records, key);
  if (const auto named = records.targets.find(key.target); named != records.targets.end()) {
    asked.target = std::make_shared<const Target>(identity_of(named->second));
  } else {
    ASSIGN_OR_RETURN(Target target, store_.target(asked.key.target));
    asked.target = std::make_shared<const Target>(identity_of(std::move(target)));
  }
  const absl::StatusOr<WorkloadRow> stored = store_.workload(key.workload);
  const auto named = records.workloads.find(key.workload);
  if (named != records.workloads.end()) {
    asked.row = named->second;
    if (asked.row.program.empty() && stored.ok()) asked.row.program = stored->program;
  } else {
    RETURN_IF_ERROR(stored.status());
    asked.row = *stored;
  }
  if (check_family(*asked.target).ok()) asked.program = named_program(asked.row);
  return asked;
}

double Door::least_us(const Asked& asked) {
  const std::string question = describe(asked.key);
  if (const std::optional<double> known = least_us_.find(question)) return *known;
  std::shared_ptr<const Program> program = asked.program;
  if (program == nullptr) {                // an older row's text may be none that can be read
    absl::StatusOr<Program> read = parse_canonical(asked.row.canonical_text);
    if (!read.ok()) return 0;
    program = std::make_shared<const Program>(*std::move(read));
  }
  double least = impossible_below_us(*program, *asked.target, asked.key.threads);
  if (allows_winograd(asked.key.objective)) least /= kWinogradSaves;
  least_us_.put(question, least, sizeof least);
  return least;
}

absl::Status Door::apply(const Asked& asked, const std::string& trace, const Stop& stop) {
  const std::string question = sha256(concat(asked.key.workload, asked.key.target,
                                             asked.key.threads, asked.key.objective, "\n",
                                             asked.row.program.size(), "\n", asked.row.program,
                                             trace));
  if (applies_.find(question)) return absl::OkStatus();
  Nest start = make_nest(asked.program, asked.target, asked.key.threads);
  start.winograd = allows_winograd(asked.key.objective);
  start.stop = stop;
  ASSIGN_OR_RETURN(const Trace steps, parse_trace(trace));
  ASSIGN_OR_RETURN(const Nest nest, replay(start, steps));
  RETURN_IF_ERROR(lower(nest).status());
  applies_.put(question, true, sizeof(bool));
  return absl::OkStatus();
}

absl::Status Door::Visit::judge(Records* records, Findings* findings) {
  std::set<std::pair<std::string, std::string>> withdrawn;  // workloads and traces
  for (const Withdrawal& one : records->withdrawals) {
    withdrawn.emplace(one.key.workload, one.trace);
  }
  for (size_t k = 0; k < records->keys.size(); ++k) {
    auto& [key, measurements] = records->keys[k];
    const absl::StatusOr<Asked> asked = door_.ask(*records, key);
    if (absl::IsNotFound(asked.status())) continue;  // the store says so
    if (!asked.ok()) return store_error(asked.status());
    const double least = door_.least_us(*asked);
    RETURN_IF_ERROR(is_over());
    for (Measurement& m : measurements) {
      if (m.verdict != Verdict::kOk || !m.annulled.empty()) continue;
      if (const double us = impossible_sample(m.samples_us, least); us > 0) {
        const std::string why = describe_impossible(us, least);
        m.annulled = annulment_text({"daemon", why, m.unix_ms});
        ++findings->impossible;
        if (findings->doubts.size() < kMostDoubts) {
          findings->doubts.push_back({"impossible", describe(asked->key), m.actor, m.device, why});
        }
      } else if (may_lead(m) && asked->program == nullptr) {
        m.counts = false;
        ++findings->unchecked;
      }
    }
    for (const size_t i : leaders_of(measurements)) {
      const std::string& trace = measurements[i].trace;
      if (withdrawn.contains({key.workload, trace})) continue;
      const absl::Status applies =
          door_.apply(*asked, trace, message_.before(Stop::Clock::now() + kTraceFor));
      RETURN_IF_ERROR(is_over());
      if (applies.ok()) continue;
      return bad_field(record_field(records->numbers[k][i], "measurement.trace"),
                       concat("does not apply to its workload and target: ",
                              std::string(applies.message())));
    }
  }
  return absl::OkStatus();
}

}  // namespace lw
