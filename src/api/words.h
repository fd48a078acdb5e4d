// Words of a workload that name a file: "PATH.te M=512", "PATH.te:OP M=512". Others come back as
// they are. Pure functions but for the current folder, from which a relative `folder` is meant.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "loopwright/program.h"

namespace lw {

// With another path, as `to` makes it.
std::string with_path(const std::string& words,
                      absl::FunctionRef<std::filesystem::path(const std::filesystem::path&)> to);

// What people call the program of these words: a text by its op's name.
std::string label_of(const std::vector<std::string>& words, const Program& program);
// The path; "" where they name no file.
std::string file_of_words(const std::string& words);
// With the path as it is found from everywhere, if from `folder` it is `words`'s.
std::string absolute_words(const std::string& words, const std::string& folder);
// With the path as it is found from `folder`: so that copies of a project elsewhere say the same.
std::string relative_words(const std::string& words, const std::string& folder);

}  // namespace lw
