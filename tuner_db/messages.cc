// Our values as messages and back, field by field. What comes in is checked by what the stores
// demand (invariants.h), and a target by printing and parsing it again.
#include "tuner_db/messages.h"

#include "absl/strings/str_cat.h"
#include "src/base/check.h"
#include "nlohmann/json.hpp"
#include "src/base/hash.h"
#include "schedules/steps.h"
#include "tuner_db/invariants.h"
#include "tuner_db/record_lines.h"

namespace lw {

namespace v1 = loopwright::v1;

constexpr size_t kLongestDetail = 4096;

std::string as_utf8(const std::string& text) {
  unsigned char bits = 0;
  for (const char one : text) bits |= static_cast<unsigned char>(one);
  if (bits < 0x80) return text;            // as nearly always: traces are a fifth of an answer's time
  std::string valid;
  for (size_t i = 0; i < text.size();) {
    const unsigned char lead = static_cast<unsigned char>(text[i]);
    const size_t length = lead < 0x80 ? 1 : lead >> 5 == 6 ? 2 : lead >> 4 == 14 ? 3
                          : lead >> 3 == 30 ? 4 : 0;
    bool good = length > 0 && i + length <= text.size();
    uint32_t code = length == 1 ? lead : lead & (0xFFu >> (length + 1));
    for (size_t k = 1; good && k < length; ++k) {
      const unsigned char next = static_cast<unsigned char>(text[i + k]);
      good = next >> 6 == 2;
      code = code << 6 | (next & 63);
    }
    constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
    good = good && code >= kLeast[length] && code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF);
    if (good) {
      valid.append(text, i, length);
      i += length;
    } else {
      valid += "\xEF\xBF\xBD";
      ++i;
    }
  }
  return valid;
}

std::string beginning(const std::string& text, size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xC0) == 0x80) --most;
  return text.substr(0, most);
}

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

v1::Key to_proto(const Key& key) {
  v1::Key out;
  out.set_workload(key.workload);
  out.set_target(key.target);
  out.set_backend(key.backend);
  out.set_threads(key.threads);
  out.set_cache(key.cache);
  out.set_objective(key.objective);
  return out;
}

Key from_proto(const v1::Key& in) {
  return {in.workload(), in.target(), in.backend(), in.threads(), in.cache(), in.objective()};
}

static_assert(static_cast<int>(Verdict::kThrottled) + 1 == v1::VERDICT_THROTTLED);

v1::TimeKind to_proto(TimeKind kind) { return static_cast<v1::TimeKind>(kind); }
static_assert(static_cast<int>(TimeKind::kMeasured) == v1::TIME_KIND_MEASURED);
static_assert(static_cast<int>(TimeKind::kEmulated) == v1::TIME_KIND_EMULATED);
static_assert(static_cast<int>(TimeKind::kEstimated) == v1::TIME_KIND_ESTIMATED);

TimeKind from_proto(v1::TimeKind message) {
  TimeKind kind = TimeKind::kEstimated;
  return parse_time_kind(message, &kind) ? kind : TimeKind::kEstimated;
}

bool says_estimated(const std::string& facts) {
  const nlohmann::json json = nlohmann::json::parse(facts, nullptr, false);
  return json.is_object() && json.contains("estimated") && json["estimated"] == true;
}

namespace {

absl::Status unknown_kind(v1::TimeKind kind) {
  return unknown_here(absl::StrCat("the kind of time ", static_cast<int>(kind)));
}

// Without provenance.
v1::Measurement measured(const Measurement& m) {
  v1::Measurement out;
  out.set_trace(as_utf8(m.trace));
  out.set_kernel_hash(m.kernel_hash);
  out.set_verdict(static_cast<v1::Verdict>(static_cast<int>(m.verdict) + 1));
  out.set_detail(as_utf8(m.detail));
  for (double sample : m.samples_us) out.add_samples_us(sample);
  out.set_inner(m.inner);
  out.set_time_us(m.time_us);
  out.set_ci_low_us(m.ci_low_us);
  out.set_ci_high_us(m.ci_high_us);
  out.set_verified(m.verified);
  out.set_max_rel_error(m.max_rel_error);
  out.set_wall_s(m.wall_s);
  out.set_build_s(m.build_s);
  out.set_seed(m.seed);
  out.set_source(as_utf8(m.source));
  out.set_environment(as_utf8(m.environment));
  out.set_unix_ms(m.unix_ms);
  out.set_time_kind(to_proto(m.time_kind));
  return out;
}

}  // namespace

std::string measurement_digest(const Measurement& m) {
  return sha256(measured(m).SerializeAsString());
}

v1::Measurement to_proto(const Measurement& m) {
  v1::Measurement out = measured(m);
  out.set_unconfirmed(!m.counts);
  out.set_actor(as_utf8(m.actor));
  out.set_device(as_utf8(m.device));
  out.set_annulled(as_utf8(m.annulled));
  return out;
}

absl::StatusOr<Measurement> from_proto(const v1::Measurement& in) {
  if (in.verdict() < v1::VERDICT_OK) {     // never written
    return absl::InvalidArgumentError("measurement: it has no verdict");
  }
  if (in.verdict() > v1::VERDICT_THROTTLED) {
    return unknown_here(absl::StrCat("the verdict ", static_cast<int>(in.verdict())));
  }
  Measurement m;
  m.trace = in.trace();
  m.kernel_hash = in.kernel_hash();
  m.verdict = static_cast<Verdict>(in.verdict() - 1);
  m.detail = in.detail();
  m.samples_us.assign(in.samples_us().begin(), in.samples_us().end());
  m.inner = in.inner();
  m.time_us = in.time_us();
  m.ci_low_us = in.ci_low_us();
  m.ci_high_us = in.ci_high_us();
  m.verified = in.verified();
  m.max_rel_error = in.max_rel_error();
  m.wall_s = in.wall_s();
  m.build_s = in.build_s();
  m.seed = in.seed();
  m.source = in.source();
  m.environment = in.environment();
  m.unix_ms = in.unix_ms();
  m.counts = !in.unconfirmed();
  m.actor = in.actor();
  m.device = in.device();
  m.annulled = in.annulled();
  if (!parse_time_kind(in.time_kind(), &m.time_kind)) return unknown_kind(in.time_kind());
  // Before there were kinds the environment said so.
  if (m.time_kind == TimeKind::kMeasured && says_estimated(m.environment)) {
    m.time_kind = TimeKind::kEstimated;
  }
  if (std::string what = defect(m); !what.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("measurement: ", what));
  }
  if (std::string what = trace_defect(m.trace); !what.empty()) {
    if (std::string step = unknown_step(m.trace); !step.empty()) {
      return unknown_here(absl::StrCat("the step ", step));
    }
    return absl::InvalidArgumentError(absl::StrCat("trace: ", what));
  }
  return m;
}

v1::Workload to_proto(const WorkloadRow& row) {
  v1::Workload out;
  out.set_id(row.id);
  out.set_name(as_utf8(row.name));
  out.set_canonical_text(row.canonical_text);
  out.set_source_words(as_utf8(row.source_words));
  out.set_flops(row.flops);
  out.set_bytes(row.bytes);
  for (int64_t extent : row.shape) out.add_shape(extent);
  out.set_family(row.family);
  out.set_program(as_utf8(row.program));
  return out;
}

absl::StatusOr<WorkloadRow> from_proto(const v1::Workload& in) {
  WorkloadRow row{in.id(), in.name(), in.canonical_text(), in.source_words(), in.flops(),
                  in.bytes(), {in.shape().begin(), in.shape().end()}, in.family(), in.program()};
  if (std::string what = defect(row); !what.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("workload: ", what));
  }
  return row;
}

v1::Target to_proto(const Target& t) {
  v1::Target out;
  out.set_name(t.name);
  out.set_family(t.family);
  out.set_triple(t.triple);
  out.set_cpu(t.cpu);
  for (const std::string& feature : t.features) out.add_features(feature);
  out.set_vector_bytes(t.vector_bytes);
  out.set_vector_registers(t.vector_registers);
  out.set_fma(t.fma);
  out.set_masks(t.masks);
  out.set_loads_per_cycle(t.loads_per_cycle);
  out.set_stores_per_cycle(t.stores_per_cycle);
  out.set_issue_per_cycle(t.issue_per_cycle);
  out.set_ghz(t.ghz);
  out.set_cores(t.cores);
  out.set_page_bytes(t.page_bytes);
  out.set_tlb_entries(t.tlb_entries);
  out.set_parallel_overhead_us(t.parallel_overhead_us);
  for (const CacheLevel& level : t.caches) {
    v1::CacheLevel& cache = *out.add_caches();
    cache.set_name(level.name);
    cache.set_bytes(level.bytes);
    cache.set_shared(level.shared);
    cache.set_read_bytes_per_cycle(level.read_bytes_per_cycle);
    cache.set_write_bytes_per_cycle(level.write_bytes_per_cycle);
    cache.set_latency_cycles(level.latency_cycles);
  }
  for (const Atom& a : t.atoms) {
    v1::Atom& atom = *out.add_atoms();
    atom.set_name(a.name);
    atom.set_a(std::string(type_name(a.a)));
    atom.set_b(std::string(type_name(a.b)));
    atom.set_acc(std::string(type_name(a.acc)));
    atom.set_lanes(a.lanes);
    atom.set_group(a.group);
    atom.set_per_cycle(a.per_cycle);
    atom.set_latency(a.latency);
  }
  return out;
}

namespace {

// What the analytic model divides by and indexes with; "" when it can compute with the target.
std::string target_defect(const Target& t) {
  const auto is = [](double value, double least, double most) {
    return value >= least && value <= most;  // no NaN
  };
  const bool power = t.vector_bytes > 0 && (t.vector_bytes & (t.vector_bytes - 1)) == 0;
  if (!power || !is(t.vector_bytes, 4, 4096)) return "vector_bytes must be a power of 2, 4 to 4096";
  if (!is(t.vector_registers, 1, 4096)) return "vector_registers must be 1 to 4096";
  if (!is(t.loads_per_cycle, 0.01, 1e3)) return "loads_per_cycle must be 0.01 to 1000";
  if (!is(t.stores_per_cycle, 0.01, 1e3)) return "stores_per_cycle must be 0.01 to 1000";
  if (!is(t.issue_per_cycle, 0.01, 1e3)) return "issue_per_cycle must be 0.01 to 1000";
  if (!is(t.ghz, 0.001, 1e3)) return "ghz must be 0.001 to 1000";
  if (!is(t.cores, 1, 65536)) return "cores must be 1 to 65536";
  if (!is(static_cast<double>(t.page_bytes), 64, 1e12)) return "page_bytes must be 64 to 1e12";
  if (!is(t.tlb_entries, 1, 1e9)) return "tlb_entries must be 1 to 1e9";
  if (!is(t.parallel_overhead_us, 0, 1e9)) return "parallel_overhead_us must be 0 to 1e9";
  if (t.caches.size() > 4) return "caches: at most 4 levels";
  for (const CacheLevel& c : t.caches) {
    const bool good = is(static_cast<double>(c.bytes), 0, 1e15) &&
                      is(c.read_bytes_per_cycle, 1e-6, 1e9) &&
                      is(c.write_bytes_per_cycle, 1e-6, 1e9) && is(c.latency_cycles, 0, 1e9);
    if (!good) return absl::StrCat("cache ", c.name, ": a number is out of its range");
  }
  if (t.atoms.size() > 64) return "atoms: at most 64";
  for (const Atom& a : t.atoms) {
    const bool good = is(a.lanes, 1, 4096) && is(a.group, 1, 4096) && is(a.per_cycle, 1e-3, 1e3) &&
                      is(a.latency, 0, 1e6);
    if (!good) return absl::StrCat("atom ", a.name, ": a number is out of its range");
  }
  return "";
}

}  // namespace

absl::StatusOr<Target> from_proto(const v1::Target& in) {
  Target t;
  t.name = in.name();
  t.family = in.family();
  t.triple = in.triple();
  t.cpu = in.cpu();
  t.features.assign(in.features().begin(), in.features().end());
  t.vector_bytes = in.vector_bytes();
  t.vector_registers = in.vector_registers();
  t.fma = in.fma();
  t.masks = in.masks();
  t.loads_per_cycle = in.loads_per_cycle();
  t.stores_per_cycle = in.stores_per_cycle();
  t.issue_per_cycle = in.issue_per_cycle();
  t.ghz = in.ghz();
  t.cores = in.cores();
  t.page_bytes = in.page_bytes();
  t.tlb_entries = in.tlb_entries();
  t.parallel_overhead_us = in.parallel_overhead_us();
  for (const v1::CacheLevel& c : in.caches()) {
    t.caches.push_back({c.name(), c.bytes(), c.shared(), c.read_bytes_per_cycle(),
                        c.write_bytes_per_cycle(), c.latency_cycles()});
  }
  for (const v1::Atom& a : in.atoms()) {
    Atom& atom = t.atoms.emplace_back();
    if (!parse_type(a.a(), &atom.a) || !parse_type(a.b(), &atom.b) ||
        !parse_type(a.acc(), &atom.acc)) {
      return unknown_here(absl::StrCat("a type of the target's atom ", a.name()));
    }
    atom.name = a.name();
    atom.lanes = a.lanes();
    atom.group = a.group();
    atom.per_cycle = a.per_cycle();
    atom.latency = a.latency();
  }
  if (std::string what = target_defect(t); !what.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("target: ", what));
  }
  // What cannot be read back must not be stored.
  const absl::StatusOr<Target> again = parse_target(to_text(t));
  if (!again.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("target: ", again.status().message()));
  }
  return t;
}

v1::ScheduleRecord to_proto(const ScheduleRecord& r) {
  v1::ScheduleRecord out;
  *out.mutable_key() = to_proto(r.key);
  out.set_name(as_utf8(r.name));
  out.set_source_words(as_utf8(r.words));
  out.set_family(r.family);
  out.mutable_shape()->Assign(r.shape.begin(), r.shape.end());
  out.set_flops(r.flops);
  out.set_bytes(r.bytes);
  put_figures(r, &out);
  out.set_samples(r.samples);
  for (const RankedTrace& other : r.others) {
    v1::RankedTrace& message = *out.add_others();
    message.set_trace(as_utf8(other.trace));
    message.set_time_us(other.time_us);
  }
  return out;
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
  ScheduleRecord r;
  r.key = from_proto(in.key());
  r.name = in.name();
  r.words = in.source_words();
  r.family = in.family();
  r.shape.assign(in.shape().begin(), in.shape().end());
  r.flops = in.flops();
  r.bytes = in.bytes();
  r.trace = in.trace();
  r.kernel_hash = in.kernel_hash();
  r.time_us = in.time_us();
  r.ci_low_us = in.ci_low_us();
  r.ci_high_us = in.ci_high_us();
  r.samples = in.samples();
  r.verified = in.verified();
  r.max_rel_error = in.max_rel_error();
  r.source = in.source();
  r.unix_ms = in.unix_ms();
  if (!parse_time_kind(in.time_kind(), &r.time_kind)) return unknown_kind(in.time_kind());
  for (const v1::RankedTrace& other : in.others()) {
    r.others.push_back({other.trace(), other.time_us()});
  }
  if (std::string what = defect(r); !what.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("record: ", what));
  }
  return r;
}

}  // namespace lw
