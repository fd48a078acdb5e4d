#include "tuner_db/tables/annulled.h"

#include <set>

#include "nlohmann/json.hpp"
#include "src/base/check.h"
#include "src/base/message.h"
#include "tuner_db/tables/columns.h"
#include "tuner_db/tables/pools.h"

namespace lw {

std::string annulment_text(const Annulment& annulment) {
  return nlohmann::json{{"actor", annulment.actor}, {"reason", annulment.reason},
                        {"time_ms", annulment.unix_ms}}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

bool matches(const MeasurementFilter& filter, const Measurement& m) {
  return m.id >= filter.first && m.id <= filter.last && m.annulled.empty() != filter.annulled &&
         (!filter.trace || m.trace == *filter.trace) &&
         (filter.actor.empty() || m.actor == filter.actor) &&
         (filter.device.empty() || m.device == filter.device);
}

absl::Status find_measurements(Transaction& tx, const MeasurementFilter& filter, int64_t after,
                               int most, std::vector<int64_t>* ids) {
  ids->clear();
  const int64_t first = std::max(filter.first, after + 1);
  std::string sql = concat("SELECT m.id FROM measurements m JOIN candidates c "
                           "ON c.id = m.candidate JOIN keys k ON k.id = c.key "
                           "WHERE m.id >= ? AND m.id <= ? AND ",
                           filter.annulled ? "m.annulled <> ''" : "m.annulled = ''");
  Bindings values = {first, filter.last};
  const auto also = [&](const char* column, Value value) {
    sql += concat(" AND ", column, " = ?");
    values.push_back(value);
  };
  if (filter.key) {
    sql += concat(" AND ", column_conditions<Key>("k."));
    add_values(*filter.key, &values);
  }
  if (filter.trace) also("c.trace", as_value(*filter.trace));
  if (!filter.actor.empty()) also("m.actor", as_value(filter.actor));
  if (!filter.device.empty()) also("m.device", as_value(filter.device));
  sql += " ORDER BY m.id LIMIT ?";
  values.push_back(as_value(most));
  Query query = tx.query_values(sql, values);
  while (query.next()) ids->push_back(query.integer(0));
  return query.status();
}

absl::Status mark_annulled(WriteTransaction& tx, const std::vector<int64_t>& ids,
                           const std::string& mark, std::vector<Key>* keys, int64_t* changed) {
  keys->clear();
  *changed = 0;
  std::set<int64_t> candidates, touched;
  for (const int64_t id : ids) {
    Query query = tx.query(
        concat("UPDATE measurements SET annulled = ? WHERE id = ? AND annulled ",
               mark.empty() ? "<> ''" : "= ''", " RETURNING candidate"), mark, id);
    if (query.next()) {
      candidates.insert(query.integer(0));
      ++*changed;
    }
    RETURN_IF_ERROR(query.run());
  }
  for (const int64_t candidate : candidates) {
    RETURN_IF_ERROR(update_pool(tx, candidate).status());
    Query query = tx.query("SELECT key FROM candidates WHERE id = ?", candidate);
    if (query.next()) touched.insert(query.integer(0));
    RETURN_IF_ERROR(query.status());
  }
  for (const int64_t key : touched) {
    RETURN_IF_ERROR(note_change(tx, key));
    Query query = tx.query("SELECT workload, target, backend, threads, cache, objective "
                           "FROM keys WHERE id = ?", key);
    if (query.next()) {
      keys->push_back({query.text(0), query.text(1), query.text(2),
                       static_cast<int>(query.integer(3)), query.text(4), query.text(5)});
    }
    RETURN_IF_ERROR(query.status());
  }
  return absl::OkStatus();
}

}  // namespace lw
