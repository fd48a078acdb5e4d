// Texts in JSON that others have written. Pure.
#pragma once

#include <string>

namespace lw {

// Whether `from` is an object whose field of that name is a text, which then is `to`. Json:
// nlohmann's, ordered or not.
template <class Json>
bool take_text(const Json& from, const char* name, std::string* to) {
  if (!from.is_object()) return false;
  const auto found = from.find(name);
  if (found == from.end() || !found->is_string()) return false;
  *to = found->template get<std::string>();
  return true;
}

}  // namespace lw
