// Values of a kernel's statements as expressions of OpenCL C 1.2, with the meaning that kernel.h
// states: integers wrap, divisions round down, conversions saturate. Internal to src/build/simt.
#pragma once

#include <string>
#include <vector>

#include "src/kernel/kernel.h"

namespace lw {

// Functions that expressions call, each once, in the order of their first use.
class Prelude {
 public:
  // The name, of which `text` is the definition.
  const std::string& use(const std::string& name, const std::string& text);
  const std::string& text() const { return text_; }

 private:
  std::vector<std::string> names_;
  std::string text_;
};

// An operation on registers, whose names are `names[register]`. "": it is none that OpenCL C has.
std::string cl_value(const Kernel& kernel, const Stmt& s, const std::vector<std::string>& names,
                     Prelude* prelude);

// A load from or a store to `at`, a pointer in the address space (""; "__global ", "__local ") to
// the first lane's element. Of a store: the statement.
struct ClAccess {
  std::string space, at;
  std::string value;                       // stores
  std::string mask, indices;               // "": none
};
std::string cl_load(Type type, int lanes, int64_t stride, const ClAccess& access, Prelude* prelude);
std::string cl_store(Type type, int lanes, int64_t stride, const ClAccess& access,
                     Prelude* prelude);

// Lanes `base + l * stride` of an integer type; `base` is an expression.
std::string cl_iota(Type type, int lanes, const std::string& base, int64_t stride);
// Of which lanes that is >= 0.
std::string cl_lane_mask(int lanes, const std::string& base, int64_t stride);

}  // namespace lw
