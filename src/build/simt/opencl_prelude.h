// What a program of OpenCL C defines before its kernels. Internal to src/build/simt.
#pragma once

#include <string>
#include <vector>

namespace lw {

// Functions, types and macros that statements mention, each once, in the order of their first use.
class Prelude {
 public:
  // `processor`: of the devices' compilers those of processors, where vectors at any address are one
  // access and where caches heed hints.
  explicit Prelude(bool processor) : processor_(processor) {}

  bool processor() const { return processor_; }
  // The name, of which `text` is the definition.
  const std::string& use(const std::string& name, const std::string& text);
  // Defines what OpenCL C leaves open: __has_builtin, which tells what compilers have besides.
  void use_has_builtin();
  const std::string& text() const { return text_; }

 private:
  bool processor_;
  std::vector<std::string> names_;
  std::string text_;
};

}  // namespace lw
