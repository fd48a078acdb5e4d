#include "src/serve/studies/second_word.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "tuner_db/best.h"

namespace lw {
namespace {

constexpr double kSpread = 1.5;            // between boards of a class, and with a neighbour's noise

}  // namespace

std::vector<Word> words_of(absl::Span<const Measurement* const> measurements, TimeKind kind) {
  std::vector<Word> words;
  std::vector<std::vector<double>> samples;
  for (const Measurement* m : measurements) {
    const bool timed =
        is_pooled(*m) && m->verdict == Verdict::kOk && m->verified && m->time_kind == kind;
    if (!timed && !disqualifies(*m)) continue;
    const auto known = std::find_if(words.begin(), words.end(),
                                    [&](const Word& word) { return word.actor == m->actor; });
    const size_t i = static_cast<size_t>(known - words.begin());
    if (known == words.end()) {
      words.push_back({m->actor, "", false, 0, m->id});
      samples.emplace_back();
    }
    words[i].device = m->device;
    words[i].failed |= !timed;
    if (timed) samples[i].insert(samples[i].end(), m->samples_us.begin(), m->samples_us.end());
  }
  for (size_t i = 0; i < words.size(); ++i) {
    if (!words[i].failed) words[i].us = median_interval(samples[i]).median;
  }
  return words;
}

bool agree(const Word& a, const Word& b) {
  if (a.failed || b.failed) return a.failed == b.failed;
  return a.us <= kSpread * b.us && b.us <= kSpread * a.us;
}

Accord accord_of(absl::Span<const Word> words) {
  if (words.size() < 2) return Accord::kOne;
  bool by_majority = false;
  return overruled(words, &by_majority).empty() ? Accord::kAgreed : Accord::kApart;
}

std::vector<Word> overruled(absl::Span<const Word> words, bool* by_majority) {
  const Word* chosen = nullptr;
  size_t most = 0;
  for (const Word& one : words) {
    const auto count = static_cast<size_t>(std::count_if(
        words.begin(), words.end(), [&](const Word& other) { return agree(one, other); }));
    if (count > most) most = count, chosen = &one;
  }
  *by_majority = 2 * most > words.size();
  if (!*by_majority) {
    chosen = &*std::max_element(words.begin(), words.end(), [](const Word& a, const Word& b) {
      return std::pair(a.failed, a.us) < std::pair(b.failed, b.us);
    });
  }
  std::vector<Word> losers;
  for (const Word& one : words) {
    if (!agree(one, *chosen)) losers.push_back(one);
  }
  return losers;
}

std::string describe(absl::Span<const Word> words) {
  std::string text;
  for (const Word& word : words) {
    if (!text.empty()) text += "; ";
    text += word.actor.empty() ? "this machine" : word.actor;
    if (!word.device.empty()) text += " on devices/" + word.device;
    text += word.failed ? ": it failed" : absl::StrFormat(": %.4g us", word.us);
  }
  return text;
}

}  // namespace lw
