// Two kinds of failure that never look alike: absl::Status for what input or a device can cause
// (RETURN_IF_ERROR, ASSIGN_OR_RETURN pass it on), CHECK for our own bugs (prints and aborts).
#pragma once

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lw::internal {
[[noreturn]] inline void check_failed(const char* file, int line, const char* what) {
  std::fprintf(stderr, "%s:%d: internal error: %s\nThis is a bug in Loopwright.\n", file, line,
               what);
  std::abort();
}
}  // namespace lw::internal

#define CHECK(condition) \
  ((condition) ? (void)0 : ::lw::internal::check_failed(__FILE__, __LINE__, #condition))

#define RETURN_IF_ERROR(expression)                                   \
  do {                                                                \
    if (absl::Status status_ = (expression); !status_.ok()) return status_; \
  } while (false)

#define LW_CONCAT_INNER(a, b) a##b
#define LW_CONCAT(a, b) LW_CONCAT_INNER(a, b)
#define ASSIGN_OR_RETURN(declaration, expression) \
  ASSIGN_OR_RETURN_AS(LW_CONCAT(status_or_, __LINE__), declaration, expression)
#define ASSIGN_OR_RETURN_AS(temporary, declaration, expression) \
  auto temporary = (expression);                                \
  if (!temporary.ok()) return temporary.status();               \
  declaration = std::move(temporary).value()
