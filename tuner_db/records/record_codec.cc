#include "tuner_db/records/record_codec.h"

#include "src/base/hash.h"
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

namespace {

class FieldEncoder {
 public:
  template <class T>
  void operator()(FieldId id, const T& value) {
    if constexpr (std::is_same_v<T, std::string>) {
      out_.text(value);
    } else if constexpr (std::is_same_v<T, double>) {
      out_.real(value);
    } else if constexpr (Described<T>) {
      out_.text(encoded(value));
    } else if constexpr (kIsList<T>) {
      out_.u64(value.size());
      for (const auto& one : value) (*this)(id, one);
    } else if constexpr (HasFieldNumber<T>) {
      out_.u64(static_cast<uint64_t>(field_number(value)));
    } else {
      out_.u64(static_cast<uint64_t>(value));
    }
  }
  template <Described T>
  static std::string encoded(const T& value) {
    FieldEncoder encoder;
    T::fields(value, encoder);
    return encoder.out_.bytes();
  }

 private:
  ByteWriter out_;
};

class FieldDecoder {
 public:
  template <class T>
  void operator()(FieldId id, T& value) {
    if (in_.finished()) return;            // of a version that had not this field
    if constexpr (std::is_same_v<T, std::string>) {
      value.assign(in_.text());
    } else if constexpr (std::is_same_v<T, double>) {
      value = in_.real();
    } else if constexpr (Described<T>) {
      if (!decode(in_.text(), value)) in_.refuse();
    } else if constexpr (kIsList<T>) {
      value.resize(in_.count(8));
      for (auto& one : value) (*this)(id, one);
    } else if constexpr (HasFieldNumber<T>) {
      if (!parse_field_number(in_.i64(), &value)) in_.refuse();
    } else {
      value = static_cast<T>(in_.u64());
    }
  }
  template <Described T>
  static bool decode(std::string_view bytes, T& value) {
    FieldDecoder decoder(bytes);
    T::fields(value, decoder);
    return decoder.in_.ok();
  }

 private:
  explicit FieldDecoder(std::string_view bytes) : in_(bytes) {}
  ByteReader in_;
};

}  // namespace

void encode(const ScheduleRecord& record, ByteWriter& out) {
  out.text(FieldEncoder::encoded(record));
}

namespace {

// As versions 1 and 2 wrote them.
ScheduleRecord decode_old(ByteReader& in, uint64_t version) {
  ScheduleRecord r;
  for (std::string* text : {&r.key.workload, &r.key.target, &r.key.backend, &r.key.cache,
                            &r.key.objective, &r.name, &r.source_words, &r.structure, &r.trace,
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
  ScheduleRecord record;
  if (!FieldDecoder::decode(in.text(), record)) in.refuse();
  return record;
}

}  // namespace lw
