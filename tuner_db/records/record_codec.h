// Records as bytes, for snapshots and caches: numbers little-endian, strings and lists after their
// lengths. Readers accept any bytes: they never read past the end, never allocate more than the
// bytes can hold, and refuse what is left over.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "tuner_db/record.h"

namespace lw {

static_assert(std::endian::native == std::endian::little);

class ByteWriter {
 public:
  void u64(uint64_t value) { raw(&value, sizeof value); }
  void real(double value) { raw(&value, sizeof value); }
  void text(std::string_view text) {
    u64(text.size());
    bytes_.append(text);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void raw(const void* data, size_t size) { bytes_.append(static_cast<const char*>(data), size); }
  std::string bytes_;
};

// After a failure every value is zero or empty and ok() stays false.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : bytes_(bytes) {}
  uint64_t u64() { return number<uint64_t>(); }
  int64_t i64() { return number<int64_t>(); }
  double real() { return number<double>(); }
  std::string_view text() {
    const uint64_t size = u64();
    if (size > bytes_.size()) return fail();
    const std::string_view text = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return text;
  }
  // A list's length; each element takes at least `least` bytes.
  size_t count(size_t least) {
    const uint64_t size = u64();
    if (size > bytes_.size() / least) fail();
    return ok_ ? size : 0;
  }
  void refuse() { fail(); }  // what was read is none
  bool ok() const { return ok_; }
  bool finished() const { return ok_ && bytes_.empty(); }

 private:
  template <class T>
  T number() {
    T value{};
    if (bytes_.size() < sizeof value) {
      fail();
    } else {
      std::memcpy(&value, bytes_.data(), sizeof value);
      bytes_.remove_prefix(sizeof value);
    }
    return value;
  }
  std::string_view fail() {
    ok_ = false;
    bytes_ = {};
    return {};
  }
  std::string_view bytes_;
  bool ok_ = true;
};

// 64 bits over 8 bytes at a time: against accidents, not against an adversary. About 0.1 us a KB.
uint64_t checksum(std::string_view bytes);

// A record is a length and its fields in the order of their description, which only grows: what an
// earlier version has not written keeps its default, what a later one has added is passed over, as
// its absence must mean what records without it meant (target.proto). So the version stays. Before,
// 1 and 2 had an order of their own, and 1 no kind of time: what it holds is taken for measured.
constexpr uint64_t kRecordVersion = 3;
void encode(const ScheduleRecord& record, ByteWriter& out);
// reader.ok() says whether it is one. REQUIRES: 1 <= version <= kRecordVersion.
ScheduleRecord decode_record(ByteReader& in, uint64_t version = kRecordVersion);

}  // namespace lw
