// Who is there: an agent or a device that was heard of lately and has not left in order. An agent
// has left when it has said so and nothing is leased to it any more. Whatever shows devices, counts
// them or places studies on them asks here.
#pragma once

#include <cstdint>

namespace lw {

// Of a row of agents or devices in SQL; `?`: since when it must have been heard of.
inline constexpr char kOnline[] = "left_ms = 0 AND seen_ms >= ?";

// Of the same columns.
inline bool is_online(int64_t seen_ms, int64_t left_ms, int64_t since_ms) {
  return left_ms == 0 && seen_ms >= since_ms;
}
// Of an AgentRow or a DeviceRow.
template <class Row>
bool is_online(const Row& row, int64_t since_ms) {
  return is_online(row.seen_ms, row.left_ms, since_ms);
}

}  // namespace lw
