// What ptxas writes on its standard error, read. Internal to src/build/simt/ptx. Pure; thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "src/build/simt/ptx/assembler/assemble.h"

namespace lw {

// Of `ptxas -v` that has made a cubin. kInternal: advisories that are bugs of the text's printer,
// or no facts of one of its entries.
absl::StatusOr<std::vector<Assembled::Facts>> assembled_facts(std::string_view report,
                                                              std::string_view ptx);

// Why there is no cubin: kInvalidArgument, kUnavailable or kInternal, as assemble() says.
absl::Status refusal(std::string_view report, std::string_view ptx);

}  // namespace lw
