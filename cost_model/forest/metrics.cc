// How well scores rank measured programs, within each workload.
#include <algorithm>
#include <cmath>
#include <map>

#include "cost_model/cost_model.h"
#include "src/base/check.h"

namespace lw {
namespace {

struct Group {
  std::vector<float> score;
  std::vector<double> label;  // best time / time; 0 for failures
  std::vector<const Example*> example;
};

// Whether it cannot be said which is faster: one's time lies within the other's interval.
bool alike(const Example& a, const Example& b) {
  if (a.failed || b.failed) return a.failed && b.failed;
  return a.time_us == b.time_us || (a.time_us >= b.low_us && a.time_us <= b.high_us) ||
         (b.time_us >= a.low_us && b.time_us <= a.high_us);
}

std::vector<size_t> descending(const std::vector<size_t>& order, const auto& key) {
  std::vector<size_t> sorted = order;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](size_t a, size_t b) { return key[a] > key[b]; });
  return sorted;
}

// (1/k) sum over j of the best label among the j best scored, relative to the best of all.
double peak_at(const Group& g, const std::vector<size_t>& order, size_t k) {
  k = std::min(k, order.size());
  double best = 0, sum = 0;
  for (size_t j = 0; j < k; ++j) {
    best = std::max(best, g.label[order[j]]);
    sum += best;
  }
  return sum / static_cast<double>(k) / *std::max_element(g.label.begin(), g.label.end());
}

double pairwise(const Group& g) {
  double agree = 0, pairs = 0;
  for (size_t i = 0; i < g.label.size(); ++i) {
    for (size_t j = i + 1; j < g.label.size(); ++j) {
      if (alike(*g.example[i], *g.example[j])) continue;
      agree += (g.score[i] > g.score[j]) == (g.label[i] > g.label[j]);
      ++pairs;
    }
  }
  return pairs > 0 ? agree / pairs : 1;
}

// The best label among the tenth that scores best, relative to the best of all.
double best_of_tenth(const Group& g, const std::vector<size_t>& order) {
  double best = 0;
  for (size_t j = 0; j < (order.size() + 9) / 10; ++j) best = std::max(best, g.label[order[j]]);
  return best / *std::max_element(g.label.begin(), g.label.end());
}

double recall_at(const std::vector<size_t>& by_score, const std::vector<size_t>& by_label,
                 size_t k) {
  k = std::min(k, by_score.size());
  double found = 0;
  for (size_t i = 0; i < k; ++i) {
    found += std::find(by_label.begin(), by_label.begin() + k, by_score[i]) != by_label.begin() + k;
  }
  return found / static_cast<double>(k);
}

// Expectation of peak@k over random orders: the best of j draws without replacement has its i-th
// smallest label with probability C(i-1, j-1) / C(n, j).
double random_peak(const Group& g, size_t k) {
  std::vector<double> sorted = g.label;
  std::sort(sorted.begin(), sorted.end());
  const size_t n = sorted.size();
  k = std::min(k, n);
  double total = 0;
  for (size_t j = 1; j <= k; ++j) {
    double p = static_cast<double>(j) / static_cast<double>(n), expected = 0;  // of the largest
    for (size_t i = n; i >= j; --i) {
      expected += p * sorted[i - 1];
      // C(i-2, j-1) / C(i-1, j-1)
      if (i > j) p *= static_cast<double>(i - j) / static_cast<double>(i - 1);
    }
    total += expected;
  }
  return total / static_cast<double>(k) / sorted.back();
}

}  // namespace

RankingMetrics evaluate(const std::vector<float>& score, const std::vector<Example>& examples) {
  CHECK(score.size() == examples.size());
  std::map<uint64_t, double> best;
  for (const Example& e : examples) {
    if (e.failed) continue;
    const auto [it, added] = best.emplace(e.group, e.time_us);
    if (!added) it->second = std::min(it->second, e.time_us);
  }
  std::map<uint64_t, Group> groups;
  for (size_t i = 0; i < examples.size(); ++i) {
    const Example& e = examples[i];
    if (best.count(e.group) == 0) continue;  // nothing valid: nothing to rank
    groups[e.group].score.push_back(score[i]);
    groups[e.group].label.push_back(e.failed ? 0 : best[e.group] / e.time_us);
    groups[e.group].example.push_back(&e);
  }
  RankingMetrics m;
  for (const auto& [id, g] : groups) {
    const size_t n = g.label.size();
    const double weight = static_cast<double>(n);
    std::vector<size_t> order(n);
    for (size_t i = 0; i < n; ++i) order[i] = i;
    const std::vector<size_t> by_score = descending(order, g.score),
                              by_label = descending(order, g.label);
    m.pairwise += weight * pairwise(g);
    m.peak_at_1 += weight * peak_at(g, by_score, 1);
    m.peak_at_5 += weight * peak_at(g, by_score, 5);
    m.recall_at_30 += weight * recall_at(by_score, by_label, 30);
    m.best_of_tenth += weight * best_of_tenth(g, by_score);
    m.random_peak_at_1 += weight * random_peak(g, 1);
    m.random_peak_at_5 += weight * random_peak(g, 5);
    ++m.groups;
    m.examples += static_cast<int>(n);
  }
  if (m.examples == 0) return m;
  for (double* metric : {&m.pairwise, &m.peak_at_1, &m.peak_at_5, &m.recall_at_30,
                         &m.best_of_tenth, &m.random_peak_at_1, &m.random_peak_at_5}) {
    *metric /= m.examples;
  }
  return m;
}

}  // namespace lw
