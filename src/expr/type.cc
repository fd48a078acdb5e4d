#include "loopwright/type.h"

namespace lw {

bool parse_type(std::string_view name, Type* type) {
  for (const TypeRow& row : kTypeRows) {
    if (name != row.name) continue;
    *type = row.type;
    return true;
  }
  return false;
}

}  // namespace lw
