#include "src/base/fields/utf8.h"

#include <cstdint>

namespace lw {

std::string as_utf8(const std::string& text) {
  unsigned char bits = 0;
  for (const char one : text) bits |= static_cast<unsigned char>(one);
  if (bits < 0x80) return text;            // as nearly always: traces are a fifth of an answer's time
  std::string valid;
  for (size_t i = 0; i < text.size();) {
    const unsigned char lead = static_cast<unsigned char>(text[i]);
    const size_t length = lead < 0x80 ? 1 : lead >> 5 == 6 ? 2 : lead >> 4 == 14 ? 3
                          : lead >> 3 == 30 ? 4 : 0;
    bool good = length > 0 && i + length <= text.size();
    uint32_t code = length == 1 ? lead : lead & (0xFFu >> (length + 1));
    for (size_t k = 1; good && k < length; ++k) {
      const unsigned char next = static_cast<unsigned char>(text[i + k]);
      good = next >> 6 == 2;
      code = code << 6 | (next & 63);
    }
    constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
    good = good && code >= kLeast[length] && code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF);
    if (good) {
      valid.append(text, i, length);
      i += length;
    } else {
      valid += "\xEF\xBF\xBD";
      ++i;
    }
  }
  return valid;
}

std::string beginning(const std::string& text, size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xC0) == 0x80) --most;
  return text.substr(0, most);
}

}  // namespace lw
