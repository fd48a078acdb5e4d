#include "src/lower/values/transpose.h"

#include <algorithm>

namespace lw::lowering {

std::vector<std::pair<Neighbour, Value>> load_transposed(Memory& memory, int buffer,
                                                         const Index& address, int lanes,
                                                         std::vector<Neighbour> around) {
  std::sort(around.begin(), around.end());
  const auto alike = [](const Neighbour& a, const Neighbour& b) { return a.apart == b.apart; };
  around.erase(std::unique(around.begin(), around.end(), alike), around.end());
  // The aligned group of `lanes` consecutive offsets that holds offset 0.
  const auto self = std::find_if(around.begin(), around.end(),
                                 [](const Neighbour& n) { return n.apart == 0; });
  const size_t first = (self - around.begin()) / lanes * lanes;
  if (first + lanes > around.size()) return {};
  for (int i = 0; i < lanes; ++i) {
    const Neighbour& neighbour = around[first + i];
    if (neighbour.apart != around[first].apart + i || !neighbour.point->valid.empty()) return {};
  }
  std::vector<Value> rows;
  for (int l = 0; l < lanes; ++l) {
    Index row;
    row.base = address.base + affine(around[first].apart + l * address.lane);
    row.lane = 1;
    rows.push_back(memory.load(buffer, row, lanes, -1));
  }
  const std::vector<Value> columns = memory.registers().transpose(rows);
  std::vector<std::pair<Neighbour, Value>> found;
  for (int i = 0; i < lanes; ++i) found.emplace_back(around[first + i], columns[i]);
  return found;
}

}  // namespace lw::lowering
