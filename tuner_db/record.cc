#include "tuner_db/record.h"

#include "src/base/hash.h"
#include "src/base/message.h"

namespace lw {

std::string key_text(const Key& key) {
  std::string text;
  Key::fields(key, [&](FieldId, const auto& value) {
    text += concat(text.empty() ? "" : "\n", value);
  });
  return text;
}

std::string record_digest(const Key& key, std::string_view trace) {
  return sha256(concat("loopwright record 1\n", key_text(key), "\n", trace));
}

ScheduleRecord make_record(const WorkloadRow& workload, const BestRow& row) {
  const Measurement& m = row.measurement;
  ScheduleRecord record;
  record.key = row.key;
  record.name = workload.name;
  record.source_words = workload.source_words;
  record.structure = workload.structure;
  record.shape = workload.shape;
  record.flops = workload.flops;
  record.bytes = workload.bytes;
  record.trace = m.trace;
  record.kernel_hash = m.kernel_hash;
  record.time_us = m.time_us;
  record.ci_low_us = m.ci_low_us;
  record.ci_high_us = m.ci_high_us;
  record.time_kind = m.time_kind;
  record.samples = static_cast<int64_t>(m.samples_us.size());
  record.verified = m.verified;
  record.max_rel_error = m.max_rel_error;
  record.source = m.source;
  record.unix_ms = m.unix_ms;
  record.others = row.others;
  return record;
}

}  // namespace lw
