// Which machine a target is: what decides which code is fast on it, and hence what results are
// stored for. That is all of a Target but its `cores`, of which each process may have others (an
// affinity mask, a cpuset, an agent's share of a machine). Pure functions.
#pragma once

#include <string>


namespace lw {

struct Target;

// The target as it is stored: with one core. So the text of a target of one core, as the built-in
// ones are, is its identity's.
Target identity_of(Target target);

// The name of the machine in keys: sha256 of the text of its identity.
std::string target_id(const Target& target);

}  // namespace lw
