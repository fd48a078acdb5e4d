// How much of a schedule's decision an export keeps. Values are the same whatever it is.
#pragma once

#include <cstdint>
#include <string>

namespace lw {

enum class Grade : uint8_t {
  kExact,                                  // the same loops
  kApproximate,                            // other loops for the same purpose
  kLost,                                   // only speed suffers
  kRefused,                                // there is no script
};
struct Fidelity {
  Grade grade = Grade::kExact;
  std::string why;                         // unless exact
};

}  // namespace lw
