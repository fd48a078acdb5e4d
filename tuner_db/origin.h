// Why a search measured a candidate: what Measurement::source says of it. Sources that are none of
// these are a client's own words. Pure functions.
#pragma once

#include <cstdint>
#include <string_view>

namespace lw {

enum class Origin : uint8_t {
  kZero,                                   // the answer without measuring
  kWarm,                                   // a stored trace, of this workload or a similar one
  kDraft, kEvolve, kRandom, kDescent,      // the ways to propose a trial
  kFinalist,                               // measured before, and again beside the best at the end
};

std::string_view origin_name(Origin origin);  // "zero", "warm", ...: stored
bool parse_origin(std::string_view name, Origin* origin);

}  // namespace lw
