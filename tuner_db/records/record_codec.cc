#include "tuner_db/records/record_codec.h"

#include "loopwright/v1/record.pb.h"
#include "src/base/hash.h"
#include "tuner_db/records/message_fields.h"
#include "src/base/message.h"

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

namespace v1 = loopwright::v1;

void encode(const ScheduleRecord& record, ByteWriter& out) {
  out.text(as_message<v1::ScheduleRecord>(record).SerializeAsString());
}

namespace {

// As versions 1 and 2 wrote them.
ScheduleRecord decode_old(ByteReader& in, uint64_t version) {
  ScheduleRecord r;
  for (std::string* text : {&r.key.workload, &r.key.target, &r.key.backend, &r.key.cache,
                            &r.key.objective, &r.name, &r.source_words, &r.family, &r.trace,
                            &r.source}) {
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

}  // namespace

ScheduleRecord decode_record(ByteReader& in, uint64_t version) {
  if (version < 3) return decode_old(in, version);
  const std::string_view bytes = in.text();
  v1::ScheduleRecord message;
  ScheduleRecord record;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) ||
      !from_message(message, LaterFields::kPassOver, &record).ok()) {
    in.refuse();
  }
  return record;
}

}  // namespace lw
