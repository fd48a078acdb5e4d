// What a kernel of a task says of itself: in the object (lw_kernel), beside it (NAME.json), and to
// whoever asks a loaded one. Nothing in it changes when the kernel is measured again, or depends on
// where its program's file lies. Pure; thread-safe.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace lw {

class Task;
struct Artifact;
struct Choice;
struct Kernel;
struct KernelFacts;

// The choice's kernel under the name of its symbol; "": the op's. kInvalidArgument: `entry` is no
// identifier of C; kNotFound: there is no kernel.
absl::StatusOr<Kernel> named_kernel(const Task& task, const Choice& choice,
                                    const std::string& entry);

// REQUIRES: `kernel` is named_kernel()'s.
nlohmann::ordered_json facts_json(const Task& task, const Choice& choice, const Kernel& kernel);
KernelFacts facts_of(const Task& task, const Choice& choice, const Kernel& kernel);

// The kernel built, with its facts in it where it is an object.
absl::StatusOr<Artifact> build_described(const Task& task, const Choice& choice,
                                         const Kernel& kernel);

// Words of a workload, of a file's path the name alone: for texts that others keep.
std::string words_without_folder(const std::string& words);

}  // namespace lw
