// The terms of a key that are words: how the caches are before a call, and what is sought. Pure
// functions.
#pragma once

#include <cstdint>
#include <string_view>

namespace lw {

enum class Cache : uint8_t {
  kWarm,                                   // as the call before left them
  kCold,                                   // flushed before every timed call
};
std::string_view cache_name(Cache cache);  // "warm", "cold": stored
bool parse_cache(std::string_view name, Cache* cache);

enum class Objective : uint8_t {
  kTime,
  kTimeWinograd,                           // schedules may use Winograd's algorithm, which is less
                                           // exact: results of their own
};
std::string_view objective_name(Objective objective);  // "time", "time+winograd": stored
bool parse_objective(std::string_view name, Objective* objective);
// Whether a Nest of such a key may: its `winograd`.
inline bool allows_winograd(Objective objective) { return objective == Objective::kTimeWinograd; }
bool allows_winograd(std::string_view objective);      // of another version: no

}  // namespace lw
