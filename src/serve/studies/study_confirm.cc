// Before a workload of a study closes: what will be given out is not one agent's word, where others are
// there to ask.
//
// The finalists of a search go to another agent than the one whose measurement leads (whom_to_avoid).
// Then what was compared is looked at trace by trace (second_word.h). Where two agents do not agree, a
// third is asked; without one, or when it has spoken, somebody is overruled: what his device measured of
// the key is annulled, he gets no more of this study's jobs while there are others, and the study begins
// again from what still counts. Where the best is one agent's word alone, the best few are compared by
// another. Each question waits for LeaseRules::confirm_ms and no longer, and a workload asks eight times:
// so one board, or one that nobody else wants to join, holds nothing up. Who was contradicted then is
// overruled unasked, since nothing is given out that lies between a false word and a true one.
#include <algorithm>
#include <set>

#include "absl/strings/strip.h"
#include "src/api/task.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/serve/messages/names.h"
#include "src/serve/queue/blame.h"
#include "src/serve/studies/second_word.h"
#include "src/serve/studies/study_best.h"
#include "src/serve/studies/study_jobs.h"
#include "src/serve/studies/study_search_impl.h"
#include "tuner_db/best.h"
#include "tuner_db/invariants.h"
#include "tuner_db/tables/history.h"
#include "tuner_db/tables/rows.h"

namespace lw {
namespace {

namespace v1 = loopwright::v1;

constexpr int kMostLooks = 8;              // then nobody is asked any more
constexpr int kMostOverruled = 32;         // looks and verdicts; then boards just differ, and it closes
constexpr size_t kCompared = 5;            // at once
constexpr int kRounds = 15;
constexpr int kAnnulAtOnce = 500;          // in a transaction

// "board-7" of "agent/board-7"; "": it is no agent.
std::string agent_of(std::string_view actor) {
  constexpr std::string_view kRole = "agent/";
  return actor.substr(0, kRole.size()) == kRole ? std::string(actor.substr(kRole.size())) : "";
}

void add_agents(const std::vector<Word>& words, std::set<std::string>* agents) {
  for (const Word& word : words) {
    if (std::string agent = agent_of(word.actor); !agent.empty()) agents->insert(std::move(agent));
  }
}

// These and the doubted, whose word would settle nothing; nobody where they are all that there is.
std::vector<std::string> beside(const std::set<std::string>& there, std::set<std::string> avoid,
                                const std::vector<std::string>& doubted) {
  avoid.insert(doubted.begin(), doubted.end());
  const bool is_left = std::any_of(there.begin(), there.end(), [&](const std::string& agent) {
    return !avoid.contains(agent);
  });
  if (!is_left) avoid.clear();
  return {avoid.begin(), avoid.end()};
}

double fastest(const std::vector<Word>& words) {
  double us = 0;
  for (const Word& word : words) {
    if (!word.failed && (us == 0 || word.us < us)) us = word.us;
  }
  return us;
}

}  // namespace

struct StudySearch::Said {
  std::string trace;
  std::vector<Measurement> rows;
  std::vector<Word> words;
};

// Of what was compared, and of the best few; the best first, then by what is claimed for them.
absl::StatusOr<std::vector<StudySearch::Said>> StudySearch::what_is_said(const Workload& w) {
  const Key& key = w.task->key();
  const absl::StatusOr<BestRow> best = seat_.store->top(key, static_cast<int>(kCompared));
  if (!best.ok() && !absl::IsNotFound(best.status())) return best.status();
  ASSIGN_OR_RETURN(const std::vector<Withdrawal> withdrawn, seat_.store->withdrawn(key));
  std::set<std::string> out, top;
  for (const Withdrawal& one : withdrawn) out.insert(one.trace);
  if (best.ok()) {
    top.insert(best->measurement.trace);
    for (const RankedTrace& other : best->others) top.insert(other.trace);
  }
  std::vector<Said> said;
  RETURN_IF_ERROR(seat_.database->read(5, [&](Transaction& tx) -> absl::Status {
    said.clear();
    ASSIGN_OR_RETURN(const int64_t id, find_key_id(tx, key));
    std::set<int64_t> candidates;
    Query compared = tx.query(
        "SELECT DISTINCT c.id FROM candidates c JOIN measurements m ON m.candidate = c.id "
        "WHERE c.key = ? AND m.source = 'finalist'", id);
    while (compared.next()) candidates.insert(compared.integer(0));
    RETURN_IF_ERROR(compared.status());
    for (const std::string& trace : top) {
      Query of_trace = tx.query("SELECT id FROM candidates WHERE key = ? AND "
                                "trace = ?", id, trace);
      if (of_trace.next()) candidates.insert(of_trace.integer(0));
      RETURN_IF_ERROR(of_trace.status());
    }
    for (int64_t candidate : candidates) {
      Said one;
      RETURN_IF_ERROR(read_candidate(tx, candidate, &one.rows));
      if (one.rows.empty() || out.contains(one.rows[0].trace)) continue;
      one.trace = one.rows[0].trace;
      one.words = words_of(pointers(one.rows), w.row.time_kind);
      if (fastest(one.words) > 0) said.push_back(std::move(one));  // else nobody claims anything
    }
    return absl::OkStatus();
  }));
  std::stable_sort(said.begin(), said.end(), [&](const Said& a, const Said& b) {
    const auto is_best = [&](const Said& one) {
      return best.ok() && one.trace == best->measurement.trace;
    };
    if (is_best(a) != is_best(b)) return is_best(a);
    return fastest(a.words) < fastest(b.words);
  });
  return said;
}

// Who is there for the workload's jobs.
absl::StatusOr<std::set<std::string>> StudySearch::who_is_there(const Workload& w) {
  std::set<std::string> agents;
  RETURN_IF_ERROR(seat_.database->read(5, [&](Transaction& tx) -> absl::Status {
    ASSIGN_OR_RETURN(agents, agents_online(tx, row_.device_target, w.row.backend, w.row.memory,
                                           seat_.now_ms() - seat_.online_ms));
    return absl::OkStatus();
  }));
  return agents;
}

// Who shall not take the batch's jobs: of finalists whose measurement leads, and who was overruled, as
// long as somebody else is there.
absl::StatusOr<std::vector<std::string>> StudySearch::whom_to_avoid(Workload& w,
                                                                    const Batch& batch) {
  const bool compares = batch.kind == BatchKind::kFinalists && !batch.proposals.empty();
  if (!compares && w.row.doubted.empty()) return std::vector<std::string>();
  ASSIGN_OR_RETURN(const std::set<std::string> there, who_is_there(w));
  std::set<std::string> avoid;
  if (compares && there.size() > 1) {
    ASSIGN_OR_RETURN(const std::vector<Said> said, what_is_said(w));
    for (const Said& one : said) {
      if (one.trace == batch.proposals[0].text) add_agents(one.words, &avoid);
    }
  }
  std::vector<std::string> all = beside(there, avoid, w.row.doubted);
  if (!all.empty() && !avoid.empty()) w.asked = avoid;
  return all.empty() ? beside(there, {}, w.row.doubted) : all;
}

// Whether it may close, with what note. kAborted: the study begins again, from what still counts.
absl::StatusOr<bool> StudySearch::confirm(Workload& w, std::string* note) {
  if (w.task == nullptr) return true;
  const bool may_ask = w.row.looks < kMostLooks;
  ASSIGN_OR_RETURN(std::vector<Said> said, what_is_said(w));
  if (said.empty()) return true;
  std::vector<Said> apart;
  for (const Said& one : said) {
    if (accord_of(one.words) == Accord::kApart) apart.push_back(one);
  }
  const Accord of_best = accord_of(said[0].words);
  if (apart.empty() && of_best == Accord::kAgreed) {
    RETURN_IF_ERROR(note_confirmed(said[0]));
    return true;
  }
  if (!may_ask) *note = "its agents do not agree; see `loopwright devices`";
  if (w.row.looks >= kMostOverruled) return true;
  std::set<std::string> avoid;
  std::vector<std::string> traces;
  for (const Said& one : apart.empty() ? said : apart) {
    if (traces.size() == kCompared) break;
    traces.push_back(one.trace);
    if (apart.empty() && traces.size() > 1) continue;
    add_agents(one.words, &avoid);
  }
  ASSIGN_OR_RETURN(const std::set<std::string> there, who_is_there(w));
  std::vector<std::string> not_these = beside(there, avoid, w.row.doubted);
  // Where they were asked already, nobody else has answered.
  if (may_ask && !not_these.empty() && avoid != w.asked) {
    w.asked = avoid;
    RETURN_IF_ERROR(queue_look(w, traces, std::move(not_these)));
    return false;
  }
  if (apart.empty()) return true;
  for (const Said& one : apart) RETURN_IF_ERROR(overrule(w, one));
  return absl::AbortedError("what leads was contradicted");
}

absl::Status StudySearch::queue_look(Workload& w, const std::vector<std::string>& traces,
                                     std::vector<std::string> avoid) {
  Batch batch;
  batch.kind = BatchKind::kFinalists;
  batch.verify = true;
  batch.rounds = kRounds;
  batch.incumbent_us = w.run->progress().best_us;
  for (const std::string& trace : traces) {
    Proposal& proposal = batch.proposals.emplace_back();
    proposal.text = trace;
    proposal.origin = Origin::kFinalist;
  }
  ++w.row.looks;
  return queue_jobs_of(w, batch, std::move(avoid), /*is_look=*/true);
}

absl::Status StudySearch::note_confirmed(const Said& best) {
  const Word* first = &best.words[0];
  for (const Word& word : best.words) {
    if (word.first < first->first) first = &word;
  }
  return fenced([&](WriteTransaction& tx, Changes*) {
    return tx.query("UPDATE devices SET confirmed = confirmed + 1 WHERE id = ? AND "
                    "agent = ?", first->device, agent_of(first->actor)).run();
  });
}

// Whoever is overruled about the trace: what his device says of the key counts for nothing any more.
absl::Status StudySearch::overrule(Workload& w, const Said& said) {
  const Key& key = w.task->key();
  bool by_majority = false;
  const std::vector<Word> losers = overruled(said.words, &by_majority);
  const std::string why = concat("contradicted: ", describe(said.words));
  const std::string mark = annulment_text({"daemon", why, seat_.now_ms()});
  std::set<int64_t> disputed;              // go last, with the event: they are what shows the rest
  for (const Measurement& m : said.rows) {
    const bool lost = std::any_of(losers.begin(), losers.end(),
                                  [&](const Word& word) { return word.actor == m.actor; });
    if (lost) disputed.insert(m.id);
  }
  for (const Word& word : losers) {
    if (agent_of(word.actor).empty()) continue;
    MeasurementFilter filter;
    filter.key = key, filter.actor = word.actor, filter.device = word.device;
    for (int64_t after = 0;;) {
      ASSIGN_OR_RETURN(std::vector<int64_t> ids, seat_.store->find(filter, after, kAnnulAtOnce));
      if (ids.empty()) break;
      after = ids.back();
      std::erase_if(ids, [&](int64_t id) { return disputed.contains(id); });
      RETURN_IF_ERROR(fenced([&](WriteTransaction& tx, Changes*) -> absl::Status {
        int64_t changed = 0;
        return store_in(tx)->annul(ids, mark, &changed).status();
      }));
    }
  }
  return fenced([&](WriteTransaction& tx, Changes* changes) -> absl::Status {
    int64_t changed = 0;
    RETURN_IF_ERROR(store_in(tx)->annul({disputed.begin(), disputed.end()}, mark,
                                        &changed).status());
    changes->keys.push_back(key);
    ASSIGN_OR_RETURN(std::vector<StudyWorkloadRow> rows, workloads_of(tx, id_));
    StudyWorkloadRow& row = rows[w.row.position];
    ++row.looks;
    for (const Word& word : losers) {
      const std::string agent = agent_of(word.actor);
      const bool is_new = std::count(row.doubted.begin(), row.doubted.end(), agent) == 0;
      if (!agent.empty() && is_new) row.doubted.push_back(agent);
      RETURN_IF_ERROR(note_doubt(tx, {"contradicted", lw::describe(key), word.actor,
                                      word.device, why}, seat_.now_ms(), changes));
      RETURN_IF_ERROR(contradict_device(tx, word.device, why, by_majority, seat_.rules,
                                        seat_.now_ms(), changes));
      v1::StudyEvent event;
      event.set_kind(v1::StudyEvent::KIND_CONTRADICTED);
      event.set_workload(row.name);
      event.set_device(word.device.empty() ? "" : device_name(word.device));
      event.set_state(v1::STUDY_STATE_RUNNING);
      event.set_detail(why);
      RETURN_IF_ERROR(add_event(tx, id_, seat_.now_ms(), std::move(event)));
    }
    changes->studies.insert(id_);
    RETURN_IF_ERROR(update_workload(tx, row));
    return reconsider_studies(tx, key, changes);
  });
}

}  // namespace lw
