#include "src/client/cache.h"

#include <fcntl.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/base/files.h"
#include "src/base/hash.h"
#include "src/base/message.h"
#include "tuner_db/records/record_codec.h"

namespace lw {
namespace {

// Then the version of its records (record_codec.h), a digit, and a line's end.
constexpr std::string_view kMagic = "loopwright cache ";
constexpr size_t kMostBytes = size_t{16} << 20;  // of an entry that is read

std::optional<std::string> read_entry(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  std::string bytes;
  char buffer[8192];
  ssize_t got = 0;
  while (bytes.size() < kMostBytes && (got = ::read(file, buffer, sizeof buffer)) > 0) {
    bytes.append(buffer, static_cast<size_t>(got));
  }
  ::close(file);
  if (got < 0) return std::nullopt;
  return bytes;
}

}  // namespace

std::string encode_entry(const Key& key, const std::vector<Match>& candidates, int64_t unix_ms) {
  ByteWriter body;
  body.text(key_text(key));
  body.u64(static_cast<uint64_t>(unix_ms));
  body.u64(candidates.size());
  for (const Match& candidate : candidates) {
    body.u64(static_cast<uint64_t>(candidate.rung));
    body.real(candidate.distance);
    body.u64(candidate.stale ? 1 : 0);
    encode(*candidate.record, body);
  }
  ByteWriter head;
  head.u64(checksum(body.bytes()));
  return concat(kMagic, kRecordVersion, "\n", head.bytes(), body.bytes());
}

std::optional<CacheEntry> decode_entry(const Key& key, std::string_view bytes) {
  if (!bytes.starts_with(kMagic) || bytes.size() < kMagic.size() + 2) return std::nullopt;
  const uint64_t version = static_cast<uint64_t>(bytes[kMagic.size()] - '0');
  if (version < 1 || version > kRecordVersion || bytes[kMagic.size() + 1] != '\n') {
    return std::nullopt;
  }
  static_assert(kRecordVersion < 10);
  bytes.remove_prefix(kMagic.size() + 2);
  ByteReader in(bytes);
  const uint64_t sum = in.u64();
  if (!in.ok() || checksum(bytes.substr(8)) != sum) return std::nullopt;
  if (in.text() != key_text(key)) return std::nullopt;
  CacheEntry entry;
  entry.unix_ms = in.i64();
  entry.candidates.resize(in.count(3 * 8));
  std::string digests;
  for (Match& candidate : entry.candidates) {
    const uint64_t rung = in.u64();
    if (rung >= static_cast<uint64_t>(Rung::kDefault)) return std::nullopt;
    candidate.rung = static_cast<Rung>(rung);
    candidate.distance = in.real();
    candidate.stale = in.u64() != 0;
    auto record = std::make_shared<ScheduleRecord>(decode_record(in, version));
    if (!in.ok() || !record->verified) return std::nullopt;
    digests += record_digest(record->key, record->trace);
    candidate.record = std::move(record);
  }
  if (!in.finished()) return std::nullopt;
  entry.etag = sha256(digests);
  return entry;
}

std::string ScheduleCache::path(const Key& key) const {
  const std::string name = sha256(key_text(key));
  return concat(folder_, "/", name.substr(0, 2), "/", name.substr(2), ".lwc");
}

std::optional<CacheEntry> ScheduleCache::read(const Key& key) const {
  const std::optional<std::string> bytes = read_entry(path(key));
  if (!bytes) return std::nullopt;
  return decode_entry(key, *bytes);
}

absl::Status ScheduleCache::write(const Key& key, const std::vector<Match>& candidates,
                                  int64_t unix_ms) const {
  // Not durably: a power cut leaves an entry that its checksum refuses.
  return place_file(path(key), encode_entry(key, candidates, unix_ms));
}

}  // namespace lw
