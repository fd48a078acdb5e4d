// Protobuf's encoding (protobuf.dev/programming-guides/encoding): a field is a varint of its number
// and kind, then a varint, four or eight bytes, or a length and so many bytes.
#include "src/base/fields/wire.h"

#include <cstring>
#include <limits>

namespace lw {

static_assert(std::endian::native == std::endian::little, "eight bytes are written as they lie");

absl::Status unknown_here(std::string_view what) {
  return absl::UnimplementedError("of another version: " + std::string(what));
}

bool is_unknown_here(const absl::Status& status) { return absl::IsUnimplemented(status); }

void WireWriter::varint(uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<char>(value | 0x80));
  bytes_.push_back(static_cast<char>(value));
}

void WireWriter::number(int number, uint64_t value) {
  if (value == 0) return;
  varint(static_cast<uint64_t>(number) << 3);
  varint(value);
}

void WireWriter::fixed(int number, uint64_t value) {
  if (value == 0) return;
  varint(static_cast<uint64_t>(number) << 3 | 1);
  bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void WireWriter::text(int number, std::string_view value) {
  varint(static_cast<uint64_t>(number) << 3 | 2);
  varint(value.size());
  bytes_.append(value);
}

size_t WireWriter::begin_text(int number) {
  varint(static_cast<uint64_t>(number) << 3 | 2);
  return bytes_.size();
}

void WireWriter::end_text(size_t begin) {
  WireWriter length;
  length.varint(bytes_.size() - begin);
  bytes_.insert(begin, length.bytes_);
}

void WireWriter::list(int number, const std::vector<int64_t>& values) {
  if (values.empty()) return;
  const size_t begin = begin_text(number);
  for (const int64_t value : values) varint(static_cast<uint64_t>(value));
  end_text(begin);
}

void WireWriter::list(int number, const std::vector<double>& values) {
  if (values.empty()) return;
  text(number, {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double)});
}

bool WireReader::varint(uint64_t* value) {
  *value = 0;
  for (int shift = 0; shift < 64 && !bytes_.empty(); shift += 7) {
    const uint64_t byte = static_cast<unsigned char>(bytes_[0]);
    bytes_.remove_prefix(1);
    *value |= (byte & 0x7F) << shift;
    if (byte < 0x80) return true;
  }
  fail();
  return false;
}

bool WireReader::fixed(int bytes, uint64_t* value) {
  *value = 0;
  if (bytes_.size() < static_cast<size_t>(bytes)) {
    fail();
    return false;
  }
  std::memcpy(value, bytes_.data(), static_cast<size_t>(bytes));
  bytes_.remove_prefix(static_cast<size_t>(bytes));
  return true;
}

bool WireReader::next() {
  uint64_t tag = 0, size = 0;
  if (bytes_.empty() || !varint(&tag)) return false;
  number_ = static_cast<int>(tag >> 3);
  kind_ = static_cast<Kind>(tag & 7);
  if (tag >> 3 == 0 || tag > std::numeric_limits<uint32_t>::max()) fail();
  switch (kind_) {
    case kVarint: return varint(&word_);
    case kFixed64: return fixed(8, &word_);
    case kFixed32: return fixed(4, &word_);
    case kText:
      if (!varint(&size)) return false;
      if (size > bytes_.size()) break;
      text_ = bytes_.substr(0, size);
      bytes_.remove_prefix(size);
      return true;
    default: break;          // groups, which nobody writes any more
  }
  fail();
  return false;
}

bool WireReader::find(int number) {
  for (;;) {
    if (!is_pending_) is_pending_ = next();
    if (!is_pending_ || number_ >= number) return is_pending_ && number_ == number;
    if (passed_over_.empty()) passed_over_ = "the field " + std::to_string(number_);
    is_pending_ = false;
  }
}

bool WireReader::is(Kind kind) {
  is_pending_ = false;
  if (kind_ != kind) fail();
  return kind_ == kind;
}

void WireReader::element(std::vector<int64_t>& values) {
  if (kind_ == kVarint && is(kVarint)) return values.push_back(static_cast<int64_t>(word_));
  if (!is(kText)) return;
  WireReader packed(text_);
  while (!packed.bytes_.empty() && packed.varint(&word_)) {
    values.push_back(static_cast<int64_t>(word_));
  }
  absorb(packed);
}

void WireReader::element(std::vector<double>& values) {
  if (kind_ == kFixed64 && is(kFixed64)) return values.push_back(std::bit_cast<double>(word_));
  if (!is(kText)) return;
  WireReader packed(text_);
  while (!packed.bytes_.empty() && packed.fixed(8, &word_)) {
    values.push_back(std::bit_cast<double>(word_));
  }
  absorb(packed);
}

void WireReader::fail(std::string_view why) {
  if (defect_.empty()) defect_ = why;
  bytes_ = {};
}

void WireReader::missing(FieldId field) { fail(std::string("it has no ") + field.name); }

void WireReader::unknown(FieldId field, std::string_view value) {
  if (!unknown_.empty()) return;
  unknown_ = "the " + std::string(field.name) + " " + std::string(value);
}

void WireReader::absorb(WireReader& inner) {
  while (inner.find(std::numeric_limits<int>::max())) {}   // what is left over
  if (!inner.defect_.empty()) fail(inner.defect_);
  if (unknown_.empty()) unknown_ = inner.unknown_;
  if (passed_over_.empty()) passed_over_ = inner.passed_over_;
}

absl::Status WireReader::finish(bool refuse) {
  while (find(std::numeric_limits<int>::max())) {}
  if (!defect_.empty()) return absl::InvalidArgumentError(defect_);
  if (!unknown_.empty()) return unknown_here(unknown_);
  if (refuse && !passed_over_.empty()) return unknown_here(passed_over_);
  return absl::OkStatus();
}

}  // namespace lw
