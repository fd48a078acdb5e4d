// A key's measurements are found by its candidates, in no order of time. Of most keys all ids are
// read and sorted, which takes milliseconds. Of a larger one a stretch of all the ids that there are
// is looked through instead: such a key owns many of them.
#include "tuner_db/tables/history.h"

#include <algorithm>

#include "absl/types/span.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "tuner_db/tables/columns.h"
#include "tuner_db/tables/rows.h"

namespace lw {
namespace {

constexpr int64_t kLookedAt = 20'000;      // measurements, by a call
constexpr size_t kRowsAtOnce = 32;         // of a statement: what is read for nothing at the most

// As a CROSS JOIN says it SQLite goes.
constexpr char kByCandidate[] = "candidates c CROSS JOIN measurements m";
constexpr char kById[] = "measurements m CROSS JOIN candidates c";

absl::StatusOr<std::vector<int64_t>> numbers(Query query) {
  std::vector<int64_t> all;
  while (query.next()) all.push_back(query.integer(0));
  RETURN_IF_ERROR(query.status());
  return all;
}

absl::StatusOr<int64_t> last_id(Transaction& tx) {
  return one_integer(tx.query("SELECT max(id) FROM measurements"));
}

// More than kLookedAt: the key has others too. In no order.
absl::StatusOr<std::vector<int64_t>> some_ids(Transaction& tx, int64_t key) {
  return numbers(tx.query(concat("SELECT m.id FROM ", kByCandidate,
                                 " WHERE c.key = ? AND m.candidate = c.id LIMIT ?"),
                          key, kLookedAt + 1));
}

bool is_large(const std::vector<int64_t>& some) {
  return some.size() > static_cast<size_t>(kLookedAt);
}

size_t bytes_of(const Measurement& m) {
  return 200 + m.trace.size() + m.detail.size() + m.environment.size() + m.annulled.size() +
         sizeof(double) * m.samples_us.size();
}

// What is to be read, in order, and where to go on after it (0: nowhere).
struct Ids {
  std::vector<int64_t> ids;
  int64_t next = 0;
};

absl::StatusOr<Ids> find_ids(Transaction& tx, int64_t key, const HistoryRequest& request) {
  const bool down = request.newest_first;
  int64_t above = down ? 0 : request.from;
  int64_t below = down && request.from > 0 ? request.from : INT64_MAX;
  Ids found;
  ASSIGN_OR_RETURN(found.ids, some_ids(tx, key));
  if (is_large(found.ids)) {
    ASSIGN_OR_RETURN(const int64_t last, last_id(tx));
    below = std::min(below, last + 1);
    if (below - above - 1 > kLookedAt) {
      found.next = down ? below - kLookedAt : above + kLookedAt;
      (down ? above : below) = down ? found.next - 1 : found.next + 1;
    }
    ASSIGN_OR_RETURN(found.ids,
                     numbers(tx.query(concat("SELECT m.id FROM ", kById,
                                             " WHERE m.id > ? AND m.id < ? AND "
                                             "c.id = m.candidate AND c.key = ?"),
                                      above, below, key)));
  }
  std::erase_if(found.ids, [&](int64_t id) { return id <= above || id >= below; });
  std::sort(found.ids.begin(), found.ids.end());
  if (down) std::reverse(found.ids.begin(), found.ids.end());
  if (found.ids.size() > static_cast<size_t>(request.rows)) {
    found.ids.resize(static_cast<size_t>(request.rows));
    found.next = found.ids.back();
  }
  return found;
}

}  // namespace

absl::StatusOr<int64_t> find_key_id(Transaction& tx, const Key& key) {
  static const std::string sql = concat("SELECT id FROM keys WHERE ", column_conditions<Key>());
  return one_integer(tx.query(sql, key));
}

absl::StatusOr<HistoryPiece> read_history(Transaction& tx, int64_t key,
                                          const HistoryRequest& request) {
  ASSIGN_OR_RETURN(const Ids found, find_ids(tx, key, request));
  HistoryPiece piece;
  size_t bytes = 0;
  for (size_t begin = 0; begin < found.ids.size(); begin += kRowsAtOnce) {
    std::vector<Measurement> rows;
    RETURN_IF_ERROR(read_by_id(
        tx, absl::MakeConstSpan(found.ids).subspan(begin, kRowsAtOnce), &rows));
    if (request.newest_first) std::reverse(rows.begin(), rows.end());
    for (Measurement& row : rows) {
      if (bytes >= request.bytes && !piece.rows.empty()) {
        piece.next = piece.rows.back().id;
        return piece;
      }
      bytes += bytes_of(row);
      piece.rows.push_back(std::move(row));
    }
  }
  piece.next = found.next;
  return piece;
}

absl::StatusOr<std::vector<FailureClass>> read_failures(Transaction& tx, int64_t key) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> some, some_ids(tx, key));
  int64_t above = 0;
  if (is_large(some)) {
    ASSIGN_OR_RETURN(above, last_id(tx));
    above -= kLookedAt;
  }
  std::vector<Measurement> failed;         // as much of them as their class takes
  {
    Query query = tx.query(
        // Of the detail more than failure_class() looks at.
        concat("SELECT m.id, m.verdict, substr(m.detail, 1, 64) FROM ",
               is_large(some) ? kById : kByCandidate, " WHERE m.id > ? AND m.candidate = c.id AND "
               "c.key = ? AND m.verdict <> 'ok' ORDER BY m.id"),
        above, key);
    while (query.next()) {
      Measurement& m = failed.emplace_back();
      m.id = query.integer(0);
      m.detail = query.text(2);
      if (!parse_verdict(query.text(1), &m.verdict)) failed.pop_back();  // damaged: not shown
    }
    RETURN_IF_ERROR(query.status());
  }
  std::vector<FailureClass> classes = failure_classes(failed);
  for (FailureClass& one : classes) {
    std::vector<Measurement> whole;
    RETURN_IF_ERROR(read_by_id(tx, {one.example.id}, &whole));
    if (!whole.empty()) one.example = std::move(whole[0]);
  }
  return classes;
}

}  // namespace lw
