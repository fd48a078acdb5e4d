// A .npy file is a magic string, two bytes of version, the header's length (two bytes in version 1,
// four in 2 and 3), a header that is a Python dict literal with exactly the keys descr,
// fortran_order and shape, and the raw data. The header is parsed as the small language that it is;
// nothing in the file is trusted before it is compared with the file's size.
#include "src/api/run/npy.h"

#include <cerrno>
#include <cstring>
#include <fstream>

#include "absl/strings/str_join.h"
#include "loopwright/program.h"
#include "src/base/check.h"
#include "src/base/message.h"

namespace lw {
namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);
constexpr size_t kMaxHeader = 1 << 16;

absl::Status bad(std::string_view why) {
  return absl::InvalidArgumentError(concat("not a .npy file: ", why));
}

// The header: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  absl::Status parse(NpyHeader* header) {
    bool seen[3] = {};
    if (!take('{')) return bad("the header is no dictionary");
    while (!take('}')) {
      std::string key;
      if (!quoted(&key) || !take(':')) return bad("a key is missing in the header");
      bool good = false;
      if (key == "descr") good = seen[0] = quoted(&header->descr);
      if (key == "fortran_order") good = seen[1] = boolean(&header->fortran_order);
      if (key == "shape") good = seen[2] = shape(&header->shape);
      if (!good) return bad(concat("the header's '", printable(key), "' is not understood"));
      if (!take(',') && !peek('}')) return bad("a comma is missing in the header");
    }
    if (!seen[0] || !seen[1] || !seen[2]) return bad("descr, fortran_order or shape is missing");
    skip();
    return at_ == text_.size() ? absl::OkStatus()
                               : bad("something follows the header's dictionary");
  }

 private:
  static std::string printable(std::string text) {
    for (char& c : text) c = c < 32 || c > 126 ? '?' : c;
    return text.substr(0, 40);
  }
  void skip() {
    while (at_ < text_.size() && std::strchr(" \n\t\r", text_[at_]) && text_[at_] != 0) ++at_;
  }
  bool peek(char c) {
    skip();
    return at_ < text_.size() && text_[at_] == c;
  }
  bool take(char c) {
    if (!peek(c)) return false;
    ++at_;
    return true;
  }
  bool quoted(std::string* out) {
    skip();
    if (at_ >= text_.size() || (text_[at_] != '\'' && text_[at_] != '"')) return false;
    const size_t end = text_.find(text_[at_], at_ + 1);
    if (end == std::string_view::npos) return false;
    *out = std::string(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return true;
  }
  bool boolean(bool* out) {
    skip();
    *out = text_.substr(at_, 4) == "True";
    if (!*out && text_.substr(at_, 5) != "False") return false;
    at_ += *out ? 4 : 5;
    return true;
  }
  bool shape(std::vector<int64_t>* out) {
    out->clear();
    if (!take('(')) return false;
    while (!take(')')) {
      int64_t value = 0;
      size_t digits = 0;
      skip();
      while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9' && digits < 18) {
        value = value * 10 + (text_[at_++] - '0');
        ++digits;
      }
      if (digits == 0 || out->size() >= 64) return false;
      out->push_back(value);
      if (!take(',') && !peek(')')) return false;
    }
    return true;
  }

  std::string_view text_;
  size_t at_ = 0;
};

uint64_t little_endian(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

// What NumPy calls the type; the first is what we write. It has the floats whose names say no more
// than how wide they are; others go as bits.
std::vector<std::string> descriptions(Type type) {
  const int bytes = size_of(type);
  const auto called = [&](char kind) -> std::vector<std::string> {
    if (bytes > 1) return {concat("<", kind, bytes)};
    return {concat("|", kind, bytes), concat("<", kind, bytes)};
  };
  switch (row_of(type).kind) {
    case TypeKind::kSigned: return called('i');
    case TypeKind::kUnsigned: return called('u');
    case TypeKind::kBool: return {"|b1"};
    case TypeKind::kFloat: break;
  }
  if (type_name(type) == concat("f", 8 * bytes)) return called('f');
  std::vector<std::string> bits = called('u');
  bits.push_back(concat("|V", bytes));
  bits.push_back(concat("<V", bytes));
  return bits;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return concat("(", absl::StrJoin(shape, ", "), shape.size() == 1 ? ",)" : ")");
}

absl::Status unlike(const std::string& path, const Tensor& tensor, std::string_view expected,
                    std::string_view found) {
  return absl::InvalidArgumentError(
      concat(path, ": ", tensor.name, " must be ", expected, ", the file has ", found));
}

}  // namespace

absl::StatusOr<NpyHeader> parse_npy_header(std::string_view file) {
  if (file.substr(0, kMagic.size()) != kMagic) return bad("it does not begin with \\x93NUMPY");
  if (file.size() < 10) return bad("it ends in its header");
  const int version = static_cast<unsigned char>(file[6]);
  if (version < 1 || version > 3) return bad(concat("format version ", version, " is unknown"));
  const size_t length_bytes = version == 1 ? 2 : 4, begin = 8 + length_bytes;
  if (file.size() < begin) return bad("it ends in its header");
  const uint64_t length = little_endian(file.substr(8, length_bytes));
  if (length > kMaxHeader || begin + length > file.size()) return bad("it ends in its header");
  NpyHeader header;
  RETURN_IF_ERROR(HeaderParser(file.substr(begin, length)).parse(&header));
  header.data_offset = begin + length;
  return header;
}

absl::Status read_npy(const std::string& path, const Tensor& tensor, std::byte* data) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return absl::InvalidArgumentError(concat("cannot read ", path, ": ", std::strerror(errno)));
  }
  std::string head(kMaxHeader + 12, '\0');
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<size_t>(file.gcount()));
  absl::StatusOr<NpyHeader> header = parse_npy_header(head);
  if (!header.ok()) {
    return absl::InvalidArgumentError(concat(path, ": ", std::string(header.status().message())));
  }
  const std::vector<std::string> accepted = descriptions(tensor.type);
  if (std::find(accepted.begin(), accepted.end(), header->descr) == accepted.end()) {
    return unlike(path, tensor, concat(type_name(tensor.type), " ('", accepted.front(), "')"),
                  concat("'", header->descr, "'"));
  }
  if (header->shape != tensor.shape) {
    return unlike(path, tensor, shape_text(tensor.shape), shape_text(header->shape));
  }
  int long_dimensions = 0;
  for (int64_t extent : tensor.shape) long_dimensions += extent > 1;
  if (header->fortran_order && long_dimensions > 1) {
    return unlike(path, tensor, "in C order", "Fortran order (save np.ascontiguousarray of it)");
  }
  file.clear();
  file.seekg(static_cast<std::streamoff>(header->data_offset));
  const int64_t wanted = bytes(tensor);
  file.read(reinterpret_cast<char*>(data), wanted);
  const int64_t got = file.gcount();
  if (got < wanted) return unlike(path, tensor, concat(wanted, " bytes of data"), concat(got));
  if (file.peek() != EOF) return unlike(path, tensor, concat(wanted, " bytes of data"), "more");
  return absl::OkStatus();
}

absl::Status write_npy(const std::string& path, const Tensor& tensor, const std::byte* data) {
  std::string header =
      concat("{'descr': '", descriptions(tensor.type).front(),
             "', 'fortran_order': False, 'shape': ", shape_text(tensor.shape), ", }");
  const size_t fixed = kMagic.size() + 4;
  while ((fixed + header.size() + 1) % 64 != 0) header += ' ';  // the data starts aligned
  header += '\n';
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << kMagic << '\x01' << '\0' << static_cast<char>(header.size() & 255)
       << static_cast<char>(header.size() >> 8) << header;
  file.write(reinterpret_cast<const char*>(data), bytes(tensor));
  file.close();
  if (file) return absl::OkStatus();
  return absl::UnavailableError(concat("cannot write ", path, ": ", std::strerror(errno)));
}

}  // namespace lw
