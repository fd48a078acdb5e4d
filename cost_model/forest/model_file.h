// Models as bytes. Internal to cost_model.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "cost_model/forest/forest.h"

namespace lw {

using Forests = std::vector<std::shared_ptr<const Forest>>;

// Lines "loopwright model 2", the schema, the architecture of targets, each forest's size and the
// hash of what follows; then the forests. Errors as save_model and load_model (cost_model.h).
absl::Status write_model_file(const Forests& forests, const std::string& path,
                              std::string_view architecture);
absl::StatusOr<Forests> read_model_file(const std::string& path, std::string_view architecture);
// The model in this program. Its forests are read once.
absl::StatusOr<Forests> shipped_forests(std::string_view architecture);

}  // namespace lw
