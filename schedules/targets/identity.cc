#include "schedules/targets/identity.h"

#include "schedules/targets/target.h"
#include "src/base/hash.h"

namespace lw {

Target identity_of(Target target) {
  target.cores = 1;
  return target;
}

std::string target_id(const Target& target) { return sha256(to_text(identity_of(target))); }

}  // namespace lw
