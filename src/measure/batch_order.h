// Outcomes batch by batch, each as it was asked for: they are stored so, and who learns from what is
// stored learns the same however many processors there are and whatever else they do.
// Thread-compatible.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "src/search/measurer.h"

namespace lw {

class BatchOrder {
 public:
  // REQUIRES: tickets that are not under way.
  void ask(const std::vector<Candidate>& batch) {
    if (batch.empty()) return;
    Batch& asked = batches_.emplace_back();
    for (const Candidate& candidate : batch) asked[candidate.ticket] = std::nullopt;
  }
  // REQUIRES (both): it was asked for.
  void finish(Outcome outcome) {
    for (Batch& batch : batches_) {
      const auto row = batch.find(outcome.ticket);
      if (row == batch.end()) continue;
      row->second = std::move(outcome);
      return;
    }
  }
  void drop(int64_t ticket) {
    for (Batch& batch : batches_) batch.erase(ticket);
    std::erase_if(batches_, [](const Batch& batch) { return batch.empty(); });
  }

  // Whether the first batch is whole.
  bool ready() const {
    return !batches_.empty() &&
           std::all_of(batches_.front().begin(), batches_.front().end(),
                       [](const auto& row) { return row.second.has_value(); });
  }
  // That batch, by ticket. REQUIRES: ready().
  std::vector<Outcome> take() {
    std::vector<Outcome> outcomes;
    for (auto& [ticket, outcome] : batches_.front()) outcomes.push_back(*std::move(outcome));
    batches_.pop_front();
    return outcomes;
  }

 private:
  using Batch = std::map<int64_t, std::optional<Outcome>>;  // by ticket

  std::deque<Batch> batches_;
};

}  // namespace lw
