// What a kernel of a task says of itself: in the object (lw_kernel), beside it (NAME.json), and to
// whoever asks a loaded one. Nothing in it changes when the kernel is measured again, or depends on
// where its program's file lies. Thread-safe.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "src/build/build.h"

namespace lw {

class Task;
struct Choice;

struct DescribedKernel {
  Artifact artifact;                       // with the facts in it, where it is an object
  nlohmann::ordered_json facts;
};
// Builds the choice's kernel under the name of its symbol; "": the op's. kInvalidArgument: `entry` is
// no identifier of C; kNotFound: there is no kernel; else as Backend::build().
absl::StatusOr<DescribedKernel> build_described(const Task& task, const Choice& choice,
                                                const std::string& entry);

// Words of a workload, of a file's path the name alone: for texts that others keep.
std::string words_without_folder(const std::string& words);

}  // namespace lw
