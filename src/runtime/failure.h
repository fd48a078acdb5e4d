// How functions of this folder fail. The folder needs nothing but the C++ library, since it is also a
// part of small libraries that foreign programs load (Python's extension, bridges to frameworks).
#pragma once

#include <string>
#include <utility>

namespace lw {

// The numbers are those of the C interface (loopwright/loopwright.h) and of exit codes.
enum class FailureCode : int {
  kNone = 0,
  kBadRequest = 1,
  kEnvironment = 5,
  kBug = 70,
};

struct Failure {
  FailureCode code = FailureCode::kNone;
  std::string text;

  bool ok() const { return code == FailureCode::kNone; }
};

inline Failure bad_request(std::string text) { return {FailureCode::kBadRequest, std::move(text)}; }
inline Failure environment_failure(std::string text) {
  return {FailureCode::kEnvironment, std::move(text)};
}

}  // namespace lw
