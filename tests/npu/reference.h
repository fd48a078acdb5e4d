// Tables of tests/npu/data (comma-separated, names in the first line) and how far ours is from them.
// Not thread-safe.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "src/base/check.h"
#include "tests/support/files.h"

namespace lw::npu {

using Row = std::map<std::string, std::string>;

inline std::vector<Row> read_table(const std::string& file) {
  std::stringstream text(slurp(LW_SOURCE_DIR "/tests/npu/data/" + file));
  const auto split = [](std::string line) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    std::vector<std::string> words;
    std::stringstream in(line);
    for (std::string word; std::getline(in, word, ',');) words.push_back(word);
    return words;
  };
  std::string line;
  std::getline(text, line);
  const std::vector<std::string> names = split(line);
  std::vector<Row> rows;
  while (std::getline(text, line)) {
    const std::vector<std::string> words = split(line);
    if (words.empty()) continue;
    CHECK(words.size() == names.size());
    Row row;
    for (size_t i = 0; i < names.size(); ++i) row[names[i]] = words[i];
    rows.push_back(row);
  }
  CHECK(!rows.empty());
  return rows;
}

inline int64_t whole(const Row& row, const std::string& name) { return std::stoll(row.at(name)); }

// Differences of many runs, as shares of the reference.
struct Errors {
  int count = 0;
  double sum = 0, worst = 0;
  std::string worst_row;

  void add(double ours, double reference, const std::string& row) {
    const double share = std::abs(ours / reference - 1);
    ++count;
    sum += share;
    if (share > worst) worst_row = row;
    worst = std::max(worst, share);
  }
  double mean() const { return sum / count; }
};

// LW_NPU_ROWS is set: tests print each row.
inline bool prints_rows() { return std::getenv("LW_NPU_ROWS") != nullptr; }

}  // namespace lw::npu
