#include "python/kernel/element.h"

#include <bit>

namespace lw::python {
namespace {

static_assert(std::endian::native == std::endian::little, "the prefix that buffers' formats have");

// No format stands for bf16: its arrays come by DLPack, or as views of 16-bit integers.
constexpr Element kElements[] = {
    {"f32", 4, "f", {dlpack::kFloat, 32, 1}},  {"f64", 8, "d", {dlpack::kFloat, 64, 1}},
    {"f16", 2, "e", {dlpack::kFloat, 16, 1}},  {"bf16", 2, "H", {dlpack::kBfloat, 16, 1}},
    {"i8", 1, "b", {dlpack::kInt, 8, 1}},      {"u8", 1, "B", {dlpack::kUInt, 8, 1}},
    {"i16", 2, "h", {dlpack::kInt, 16, 1}},    {"i32", 4, "il", {dlpack::kInt, 32, 1}},
    {"i64", 8, "ql", {dlpack::kInt, 64, 1}},   {"bool", 1, "?", {dlpack::kBool, 8, 1}},
};

std::string_view without_order(const char* format) {
  std::string_view text = format == nullptr ? "B" : format;
  if (text.size() == 2 && (text[0] == '@' || text[0] == '=' || text[0] == '<')) text.remove_prefix(1);
  return text;
}

}  // namespace

const Element* find_element(std::string_view name) {
  for (const Element& element : kElements) {
    if (element.name == name) return &element;
  }
  return nullptr;
}

bool is_format(const Element& element, const char* format, int64_t bytes) {
  const std::string_view text = without_order(format);
  return bytes == element.bytes && text.size() == 1 &&
         element.formats.find(text[0]) != std::string_view::npos;
}

std::string name_of_format(const char* format, int64_t bytes) {
  for (const Element& element : kElements) {
    if (element.name != "bf16" && is_format(element, format, bytes)) {
      return std::string(element.name);
    }
  }
  const std::string_view text = without_order(format);
  if (text == "H") return "u16";
  return "of format '" + std::string(text) + "'";
}

std::string name_of_dlpack(dlpack::Type type) {
  for (const Element& element : kElements) {
    if (element.dlpack.code == type.code && element.dlpack.bits == type.bits && type.lanes == 1) {
      return std::string(element.name);
    }
  }
  return "of DLPack's type " + std::to_string(type.code) + ":" + std::to_string(type.bits) + "x" +
         std::to_string(type.lanes);
}

}  // namespace lw::python
