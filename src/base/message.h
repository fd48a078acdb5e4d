// Text for messages. (The packaged abseil is built with its own string_view, so absl::StrCat does
// not take std::string_view.)
#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace lw {

template <class T>
void append_piece(std::string* out, const T& piece) {
  if constexpr (std::is_same_v<T, char>) {
    out->push_back(piece);
  } else if constexpr (std::is_integral_v<T>) {
    out->append(std::to_string(piece));
  } else {
    out->append(std::string_view(piece));
  }
}

// The pieces, strings and integers, one after the other.
template <class... Pieces>
std::string concat(const Pieces&... pieces) {
  std::string out;
  (append_piece(&out, pieces), ...);
  return out;
}

// The name in `candidates` nearest to `name` by edit distance, or "" when none is near.
std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace lw
