// The types of elements: their names in the language, in buffers and in DLPack.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "python/kernel/dlpack.h"

namespace lw::python {

struct Element {
  std::string_view name;                   // "f32"
  int bytes;
  std::string_view formats;                // of Py_buffer that mean it, with itemsize == bytes
  dlpack::Type dlpack;
};

// Null: there is no such type.
const Element* find_element(std::string_view name);
// "f32"; what the language has no name for, as the buffer says it: "format 'Zd'".
std::string name_of_format(const char* format, int64_t bytes);
std::string name_of_dlpack(dlpack::Type type);
// Whether a buffer of this format holds `element`; the host's byte order only.
bool is_format(const Element& element, const char* format, int64_t bytes);

}  // namespace lw::python
