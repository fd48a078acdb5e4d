// A suite that is already read.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/expr/language/text.h"

namespace lw {

// As read_suite (text.h); `path` stands for the text in messages.
absl::StatusOr<SuiteCases> parse_suite(std::string_view text, const std::string& path,
                                       const std::vector<std::string>& names);

}  // namespace lw
