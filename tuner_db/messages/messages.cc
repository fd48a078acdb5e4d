// Our values as messages and back, field by field. What comes in is checked by what the stores
// demand (invariants.h), and a target by printing and parsing it again.
#include "tuner_db/messages/messages.h"

#include <iterator>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "schedules/steps.h"
#include "schedules/targets/family.h"
#include "schedules/targets/json_fields.h"
#include "src/base/check.h"
#include "src/base/hash.h"
#include "tuner_db/invariants.h"
#include "tuner_db/messages/message_fields.h"
#include "tuner_db/messages/record_lines.h"

namespace lw {

namespace v1 = loopwright::v1;

constexpr size_t kLongestDetail = 4096;

std::string as_detail(const std::string& text) {
  return beginning(as_utf8(beginning(text, kLongestDetail)), kLongestDetail);
}

std::string result_digest(const v1::JobResult& result) {
  std::string bytes;
  for (const v1::CandidateOutcome& outcome : result.outcomes()) {
    bytes += outcome.SerializeAsString();
  }
  return sha256(bytes);
}

namespace {

// What does not add up is said of "NAME: ".
template <class T>
absl::Status read_message(const google::protobuf::Message& message, const char* name, T* value) {
  const absl::Status status = from_message(message, value);
  if (status.ok() || is_unknown_here(status)) return status;
  return absl::InvalidArgumentError(absl::StrCat(name, ": ", status.message()));
}

absl::Status defective(const char* name, const std::string& what) {
  if (what.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, ": ", what));
}

}  // namespace

void MessageReader::refuse(FieldId id, bool is_absent, const std::string& value) {
  std::string& what = is_absent ? defect_ : unknown_;
  if (!what.empty()) return;
  what = is_absent ? absl::StrCat("it has no ", id.name)
                   : absl::StrCat("the ", id.name, " ", value);
}

absl::Status MessageReader::finish() const {
  if (!defect_.empty()) return absl::InvalidArgumentError(defect_);
  return unknown_.empty() ? absl::OkStatus() : unknown_here(unknown_);
}

v1::Key to_proto(const Key& key) { return as_message<v1::Key>(key); }

Key from_proto(const v1::Key& in) {
  return {in.workload(), in.target(), in.backend(), in.threads(), in.cache(), in.objective()};
}

static_assert(std::size(kVerdicts) == v1::Verdict_ARRAYSIZE - 1);  // less UNSPECIFIED

v1::Verdict to_proto(Verdict verdict) { return static_cast<v1::Verdict>(verdict); }

std::optional<Verdict> from_proto(v1::Verdict message) {
  Verdict verdict = Verdict::kOk;
  return parse_verdict(message, &verdict) ? std::optional(verdict) : std::nullopt;
}

v1::TimeKind to_proto(TimeKind kind) { return static_cast<v1::TimeKind>(kind); }

TimeKind from_proto(v1::TimeKind message) {
  TimeKind kind = TimeKind::kEstimated;
  return parse_time_kind(message, &kind) ? kind : TimeKind::kEstimated;
}

bool says_estimated(const std::string& facts) {
  const nlohmann::json json = nlohmann::json::parse(facts, nullptr, false);
  return json.is_object() && json.contains("estimated") && json["estimated"] == true;
}

std::string measurement_digest(const Measurement& m) {
  v1::Measurement measured;
  MessageWriter writer(&measured);
  Measurement::fields(m, [&](FieldId field, const auto& value) {
    if (!field.provenance) writer(field, value);
  });
  return sha256(measured.SerializeAsString());
}

v1::Measurement to_proto(const Measurement& m) { return as_message<v1::Measurement>(m); }

absl::StatusOr<Measurement> from_proto(const v1::Measurement& in) {
  Measurement m;
  RETURN_IF_ERROR(read_message(in, "measurement", &m));
  // Before there were kinds the environment said so.
  if (m.time_kind == TimeKind::kMeasured && says_estimated(m.environment)) {
    m.time_kind = TimeKind::kEstimated;
  }
  RETURN_IF_ERROR(defective("measurement", defect(m)));
  if (std::string what = trace_defect(m.trace); !what.empty()) {
    if (std::string step = unknown_step(m.trace); !step.empty()) {
      return unknown_here(absl::StrCat("the step ", step));
    }
    return absl::InvalidArgumentError(absl::StrCat("trace: ", what));
  }
  return m;
}

v1::Workload to_proto(const WorkloadRow& row) { return as_message<v1::Workload>(row); }

absl::StatusOr<WorkloadRow> from_proto(const v1::Workload& in) {
  WorkloadRow row;
  RETURN_IF_ERROR(read_message(in, "workload", &row));
  RETURN_IF_ERROR(defective("workload", defect(row)));
  return row;
}

namespace {

// Whether the message has the fields of the family's targets; those of others travel in `later`.
bool has_own_fields(const TargetPart& part) {
  const std::vector<PartField> fields = part.fields();
  return fields.empty() ||
         v1::Target::descriptor()->FindFieldByNumber(fields.front().id.number) != nullptr;
}

}  // namespace

v1::Target to_proto(const Target& target) {
  if (has_own_fields(target.part)) return as_message<v1::Target>(target);
  return as_message<v1::Target>(without_part(target));
}

namespace {

// Why nothing can compute with the target, or keep it; "": nothing.
std::string target_defect(const Target& t) {
  const auto is = [](double value, double least, double most) {
    return value >= least && value <= most;  // no NaN
  };
  const auto is_later = [](const std::string& later) {
    return later.empty() || parse_shallow(later).is_object();
  };
  if (!is_later(t.later)) return "later must be a JSON object, of few levels";
  if (const TargetFamily* family = t.part.family()) {
    if (std::string what = family->defect(t); !what.empty()) return what;
  }
  if (!is(t.ghz, 0.001, 1e3)) return "ghz must be 0.001 to 1000";
  if (!is(t.cores, 1, 65536)) return "cores must be 1 to 65536";
  for (const CacheLevel& c : t.caches) {
    const bool good = is(static_cast<double>(c.bytes), 0, 1e15) &&
                      is(c.read_bytes_per_cycle, 1e-6, 1e9) &&
                      is(c.write_bytes_per_cycle, 1e-6, 1e9) && is(c.latency_cycles, 0, 1e9);
    if (!good) return absl::StrCat("cache ", c.name, ": a number is out of its range");
    if (!is_later(c.later)) return absl::StrCat("cache ", c.name, ": later must be a JSON object");
  }
  if (t.atoms.size() > 64) return "atoms: at most 64";
  for (const Atom& a : t.atoms) {
    const bool good = is(a.lanes, 1, 4096) && is(a.group, 1, 4096) && is(a.per_cycle, 1e-3, 1e3) &&
                      is(a.latency, 0, 1e6) && is(a.m, 0, 4096) && is(a.n, 0, 4096) &&
                      is(a.k, 0, 4096);
    if (!good) return absl::StrCat("atom ", a.name, ": a number is out of its range");
    if (!is_later(a.later)) return absl::StrCat("atom ", a.name, ": later must be a JSON object");
  }
  return "";
}

}  // namespace

absl::StatusOr<Target> from_proto(const v1::Target& in) {
  Target target;
  target.part = make_part(in.family(), [&](const char* name) {
    const auto* field = v1::Target::descriptor()->FindFieldByName(name);
    return field != nullptr && in.GetReflection()->HasField(in, field);
  });
  if (!has_own_fields(target.part)) target.part = {};
  // What a later version adds to a machine's text is part of its identity, which who sends one says
  // too: there a field that is passed over is noticed.
  RETURN_IF_ERROR(read_message(in, "target", &target));
  RETURN_IF_ERROR(defective("target", target_defect(target)));
  // What cannot be read back must not be stored; and of `later` we may know what a relay did not.
  absl::StatusOr<Target> again = read_target(to_text(target));
  RETURN_IF_ERROR(defective("target", std::string(again.status().message())));
  if (target.part.family() == nullptr) {
    RETURN_IF_ERROR(defective("target", target_defect(*again)));
  }
  return again;
}

v1::ScheduleRecord to_proto(const ScheduleRecord& record) {
  return as_message<v1::ScheduleRecord>(record);
}

v1::FailureClass to_proto(const FailureClass& failure) {
  v1::FailureClass out;
  out.set_name(failure.name);
  out.set_count(failure.count);
  out.set_detail(as_utf8(failure.example.detail));
  out.set_trace(as_utf8(failure.example.trace));
  out.set_advice(failure_advice(failure));
  return out;
}

absl::StatusOr<ScheduleRecord> from_proto(const v1::ScheduleRecord& in) {
  ScheduleRecord record;
  RETURN_IF_ERROR(read_message(in, "record", &record));
  RETURN_IF_ERROR(defective("record", defect(record)));
  return record;
}

}  // namespace lw
