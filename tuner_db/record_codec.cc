#include "tuner_db/record_codec.h"

#include "src/base/hash.h"
#include "src/expr/message.h"

namespace lw {

uint64_t checksum(std::string_view bytes) {
  uint64_t hash = hash_combine(0x6c77, bytes.size());
  while (bytes.size() >= 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data(), 8);
    hash = std::rotl((hash ^ word) * 0x9e3779b97f4a7c15u, 29);
    bytes.remove_prefix(8);
  }
  uint64_t rest = 0;
  if (!bytes.empty()) std::memcpy(&rest, bytes.data(), bytes.size());
  return hash_combine(hash, rest);
}

void encode(const ScheduleRecord& r, ByteWriter& out) {
  for (const std::string* text :
       {&r.key.workload, &r.key.target, &r.key.backend, &r.key.cache, &r.key.objective, &r.name,
        &r.words, &r.family, &r.trace, &r.source}) {
    out.text(*text);
  }
  out.u64(static_cast<uint64_t>(r.key.threads));
  out.u64(r.shape.size());
  for (int64_t extent : r.shape) out.u64(static_cast<uint64_t>(extent));
  for (double value : {r.flops, r.bytes, r.time_us, r.ci_low_us, r.ci_high_us, r.max_rel_error}) {
    out.real(value);
  }
  out.u64(r.kernel_hash);
  out.u64(static_cast<uint64_t>(r.samples));
  out.u64(r.verified ? 1 : 0);
  out.u64(static_cast<uint64_t>(r.unix_ms));
  out.u64(r.others.size());
  for (const RankedTrace& other : r.others) {
    out.text(other.trace);
    out.real(other.time_us);
  }
  out.u64(static_cast<uint64_t>(r.time_kind));
}

ScheduleRecord decode_record(ByteReader& in, uint64_t version) {
  ScheduleRecord r;
  for (std::string* text : {&r.key.workload, &r.key.target, &r.key.backend, &r.key.cache,
                            &r.key.objective, &r.name, &r.words, &r.family, &r.trace, &r.source}) {
    text->assign(in.text());
  }
  r.key.threads = static_cast<int>(in.i64());
  r.shape.resize(in.count(8));
  for (int64_t& extent : r.shape) extent = in.i64();
  for (double* value :
       {&r.flops, &r.bytes, &r.time_us, &r.ci_low_us, &r.ci_high_us, &r.max_rel_error}) {
    *value = in.real();
  }
  r.kernel_hash = in.u64();
  r.samples = in.i64();
  r.verified = in.u64() != 0;
  r.unix_ms = in.i64();
  r.others.resize(in.count(16));
  for (RankedTrace& other : r.others) {
    other.trace.assign(in.text());
    other.time_us = in.real();
  }
  if (version >= 2 && !parse_time_kind(in.i64(), &r.time_kind)) in.refuse();
  return r;
}

std::string key_text(const Key& key) {
  return concat(key.workload, "\n", key.target, "\n", key.backend, "\n", key.threads, "\n",
                key.cache, "\n", key.objective);
}

}  // namespace lw
