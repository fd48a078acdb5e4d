// What is withdrawn, as short as it can be said, for whoever holds records far from their database:
// a compiler's cache, a snapshot, a bundle. The sha256s of records (record_digest) and of kernels
// (kernel_digest): a record is out when either of its own is among them.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tuner_db/ladder/ladder.h"
#include "tuner_db/store.h"

namespace lw {

// sha256 of a key and a kernel of it; "" for kernel_hash = 0, a kernel that is not known.
std::string kernel_digest(const Key& key, uint64_t kernel_hash);

// 10,000 withdrawals are at most 640 KB; whether a record is among them costs two sha256s of it and
// two binary searches. A compiler whose cache has all that it asks for is answered 6 us later than
// with an empty list (10 us), and the first time 0.9 ms later (bench/service, row `withdrawn`, on
// two shared cores). Immutable, so thread-safe.
class WithdrawnList {
 public:
  WithdrawnList() = default;               // of nothing
  explicit WithdrawnList(const std::set<std::string>& digests);  // what is none is left out
  // As bytes() gave them. Nothing: they are no digests in ascending order.
  static std::optional<WithdrawnList> of_bytes(std::string bytes);

  const std::string& bytes() const { return bytes_; }  // digests, 32 bytes each, ascending
  size_t size() const;                     // digests
  std::string digest(size_t i) const;      // 64 hex digits
  bool has(std::string_view digest) const;  // 64 hex digits; anything else is not in it
  bool has(const ScheduleRecord& record) const;

 private:
  std::string bytes_;
};

// The record, without those of its other traces that are out; null: it is out itself.
std::shared_ptr<const ScheduleRecord> unless_withdrawn(std::shared_ptr<const ScheduleRecord> record,
                                                       const WithdrawnList& list);

// The source, which must outlive it, without what is out.
std::unique_ptr<RecordSource> without_withdrawn(const RecordSource& source,
                                                std::shared_ptr<const WithdrawnList> list);

// Why, by the digest of each record and kernel: "by admin/a: computes wrong".
using WithdrawnReasons = std::map<std::string, std::string>;
WithdrawnReasons reasons_of(const std::vector<Withdrawal>& rows);
std::string reason_text(std::string_view actor, std::string_view reason);

}  // namespace lw
