// Text that leaves the process. Pure functions.
#pragma once

#include <string>

namespace lw {

// Protobuf's strings are UTF-8; a compiler's or a kernel's last words need not be: what is not
// becomes U+FFFD.
std::string as_utf8(const std::string& text);
// Its first bytes, `most` at the most, without a part of a character at the end.
std::string beginning(const std::string& text, size_t most);

}  // namespace lw
