#include "tuner_db/verdict.h"

#include "src/base/check.h"

namespace lw {
namespace {

const VerdictRow& row_of(Verdict verdict) {
  for (const VerdictRow& row : kVerdicts) {
    if (row.verdict == verdict) return row;
  }
  CHECK(false);
  return kVerdicts[0];
}

}  // namespace

std::string_view verdict_name(Verdict verdict) { return row_of(verdict).name; }

bool parse_verdict(std::string_view name, Verdict* verdict) {
  for (const VerdictRow& row : kVerdicts) {
    if (row.name != name) continue;
    *verdict = row.verdict;
    return true;
  }
  return false;
}

bool parse_verdict(int64_t number, Verdict* verdict) {
  for (const VerdictRow& row : kVerdicts) {
    if (static_cast<int64_t>(row.verdict) != number) continue;
    *verdict = row.verdict;
    return true;
  }
  return false;
}

Blame blame_of(Verdict verdict) { return row_of(verdict).blame; }
bool is_retried(Verdict verdict) { return row_of(verdict).is_retried; }

}  // namespace lw
