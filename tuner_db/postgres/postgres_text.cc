#include <cstdint>

#include "absl/strings/str_cat.h"
#include "tuner_db/postgres/postgres_connection.h"

namespace lw {
namespace {

// Bytes of the valid UTF-8 character at `at`, 0 when there is none, or it is NUL or one of ours.
size_t plain(std::string_view text, size_t at) {
  auto byte = [&](size_t i) {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0u;
  };
  const unsigned lead = byte(0);
  if (lead == 0) return 0;
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  if (lead == 0xE0 && byte(1) < 0xA0) return 0;              // overlong
  if (lead == 0xED && byte(1) > 0x9F) return 0;              // surrogates
  if (lead == 0xF0 && byte(1) < 0x90) return 0;              // overlong
  if (lead == 0xF4 && byte(1) > 0x8F) return 0;              // beyond U+10FFFF
  const bool ours = lead == 0xF4 && byte(1) == 0x8F && byte(2) >= 0xBC;
  return ours ? 0 : length;
}

}  // namespace

std::string to_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  for (size_t i = 0; i < bytes.size();) {
    if (const size_t length = plain(bytes, i); length > 0) {
      out.append(bytes.substr(i, length));
      i += length;
      continue;
    }
    const unsigned byte = static_cast<unsigned char>(bytes[i++]);
    out += {'\xF4', '\x8F', static_cast<char>(0xBC | (byte >> 6)),
            static_cast<char>(0x80 | (byte & 0x3F))};
  }
  return out;
}

std::string from_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    if (i + 3 < text.size() && text[i] == '\xF4' && text[i + 1] == '\x8F' &&
        static_cast<unsigned char>(text[i + 2]) >= 0xBC) {
      out.push_back(static_cast<char>(((text[i + 2] & 3) << 6) | (text[i + 3] & 0x3F)));
      i += 4;
    } else {
      out.push_back(text[i++]);
    }
  }
  return out;
}

std::string number_parameters(std::string_view sql) {
  std::string out;
  int number = 0;
  for (size_t i = 0; i < sql.size();) {
    if (sql[i] == '?') {
      absl::StrAppend(&out, "$", ++number);
      ++i;
      continue;
    }
    size_t last = i;
    if (sql[i] == '\'' || sql[i] == '"') last = sql.find(sql[i], i + 1);
    if (sql.substr(i, 2) == "--") last = sql.find('\n', i);
    const size_t end = last == std::string_view::npos ? sql.size() : last + 1;
    out.append(sql.substr(i, end - i));
    i = end;
  }
  return out;
}

}  // namespace lw
