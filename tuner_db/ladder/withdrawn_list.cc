#include "tuner_db/ladder/withdrawn_list.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "schedules/targets/target.h"
#include "src/base/check.h"
#include "src/base/hash.h"
#include "src/base/message.h"
#include "tuner_db/invariants.h"
#include "tuner_db/records/record_codec.h"

namespace lw {
namespace {

constexpr size_t kBytes = 32;              // of a digest

// REQUIRES: is_digest(hex).
std::string bytes_of(std::string_view hex) {
  const auto nibble = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) {
    bytes += static_cast<char>(nibble(hex[i]) << 4 | nibble(hex[i + 1]));
  }
  return bytes;
}

class Source : public RecordSource {
 public:
  Source(const RecordSource& source, std::shared_ptr<const WithdrawnList> list)
      : source_(source), list_(std::move(list)) {}

  absl::StatusOr<std::shared_ptr<const ScheduleRecord>> record(const Key& key) const override {
    ASSIGN_OR_RETURN(std::shared_ptr<const ScheduleRecord> record, source_.record(key));
    record = unless_withdrawn(std::move(record), *list_);
    if (record == nullptr) return absl::NotFoundError("withdrawn");
    return record;
  }
  absl::Status with_structure(const std::string& structure,
                              absl::FunctionRef<void(const StructureIndex&)> look) const override {
    return source_.with_structure(structure, look);
  }
  absl::StatusOr<std::shared_ptr<const Target>> target(const std::string& id) const override {
    return source_.target(id);
  }

 private:
  const RecordSource& source_;
  const std::shared_ptr<const WithdrawnList> list_;
};

}  // namespace

std::string kernel_digest(const Key& key, uint64_t kernel_hash) {
  if (kernel_hash == 0) return "";
  return sha256(concat("loopwright kernel 1\n", key_text(key), "\n", kernel_hash));
}

WithdrawnList::WithdrawnList(const std::set<std::string>& digests) {
  for (const std::string& digest : digests) {  // in ascending order, as their bytes are
    if (is_digest(digest)) bytes_ += bytes_of(digest);
  }
}

std::optional<WithdrawnList> WithdrawnList::of_bytes(std::string bytes) {
  if (bytes.size() % kBytes != 0) return std::nullopt;
  for (size_t at = kBytes; at < bytes.size(); at += kBytes) {
    if (std::memcmp(bytes.data() + at - kBytes, bytes.data() + at, kBytes) >= 0) {
      return std::nullopt;
    }
  }
  WithdrawnList list;
  list.bytes_ = std::move(bytes);
  return list;
}

size_t WithdrawnList::size() const { return bytes_.size() / kBytes; }

std::string WithdrawnList::digest(size_t i) const {
  constexpr char kHex[] = "0123456789abcdef";
  std::string hex;
  for (const char c : std::string_view(bytes_).substr(i * kBytes, kBytes)) {
    const auto byte = static_cast<unsigned char>(c);
    hex += {kHex[byte >> 4], kHex[byte & 15]};
  }
  return hex;
}

bool WithdrawnList::has(std::string_view digest) const {
  if (bytes_.empty() || !is_digest(digest)) return false;
  const std::string wanted = bytes_of(digest);
  size_t low = 0, high = size();
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    const int order = std::memcmp(bytes_.data() + middle * kBytes, wanted.data(), kBytes);
    if (order == 0) return true;
    order < 0 ? low = middle + 1 : high = middle;
  }
  return false;
}

bool WithdrawnList::has(const ScheduleRecord& record) const {
  return !bytes_.empty() && (has(record_digest(record.key, record.trace)) ||
                             has(kernel_digest(record.key, record.kernel_hash)));
}

std::shared_ptr<const ScheduleRecord> unless_withdrawn(std::shared_ptr<const ScheduleRecord> record,
                                                       const WithdrawnList& list) {
  if (list.size() == 0) return record;
  if (list.has(*record)) return nullptr;
  const auto is_out = [&](const RankedTrace& other) {
    return list.has(record_digest(record->key, other.trace));
  };
  if (std::none_of(record->others.begin(), record->others.end(), is_out)) return record;
  auto rest = std::make_shared<ScheduleRecord>(*record);
  std::erase_if(rest->others, is_out);
  return rest;
}

std::unique_ptr<RecordSource> without_withdrawn(const RecordSource& source,
                                                std::shared_ptr<const WithdrawnList> list) {
  return std::make_unique<Source>(source, std::move(list));
}

std::string reason_text(std::string_view actor, std::string_view reason) {
  return concat("by ", actor.empty() ? "somebody" : actor, ": ", reason);
}

WithdrawnReasons reasons_of(const std::vector<Withdrawal>& rows) {
  WithdrawnReasons reasons;
  for (const Withdrawal& row : rows) {
    const std::string reason = reason_text(row.actor, row.reason);
    reasons.emplace(record_digest(row.key, row.trace), reason);
    if (row.kernel_hash != 0) reasons.emplace(kernel_digest(row.key, row.kernel_hash), reason);
  }
  return reasons;
}

}  // namespace lw
