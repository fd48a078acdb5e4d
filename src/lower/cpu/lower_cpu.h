// Lowering for CPUs: register tiles of vectors. As lower() and count_statements().
#pragma once

#include "absl/status/statusor.h"
#include "src/kernel/kernel.h"
#include "src/lower/lower.h"

namespace lw {

absl::StatusOr<Kernel> lower_cpu(const Nest& nest, const LowerOptions& options);
absl::StatusOr<int64_t> count_statements_cpu(const Nest& nest, const LowerOptions& options);

}  // namespace lw
