// The text of a kernel in PTX while it grows: registers are named as they are asked for, and what does
// not change in a loop may be computed before it. Internal to src/build/simt/ptx.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/base/message.h"

namespace lw {

// Values of 32 and 64 bits have registers without a type, which every instruction of that size takes.
class PtxCode {
 public:
  PtxCode() : texts_(1) {}

  std::string word() { return concat("%r", words_++); }
  std::string wide() { return concat("%d", wides_++); }
  std::string half() { return concat("%h", halves_++); }
  std::string flag() { return concat("%p", flags_++); }
  std::string label() { return concat("L", labels_++); }

  // Scopes are the lists of statements that a place stands in, 0 the outermost.
  int depth() const { return static_cast<int>(texts_.size()) - 1; }
  void enter() { texts_.emplace_back(); }
  // The text of the innermost scope, which is for the caller to put where it belongs.
  std::string leave() {
    std::string text = std::move(texts_.back());
    texts_.pop_back();
    return text;
  }

  template <class... Parts>
  void line(const Parts&... parts) {
    line_at(depth(), parts...);
  }
  // In an outer scope, before all that the inner ones will say.
  template <class... Parts>
  void line_at(int depth, const Parts&... parts) {
    texts_[depth] += concat("  ", parts..., ";\n");
  }
  void place(const std::string& label) { texts_.back() += label + ":\n"; }
  void append(std::string_view text) { texts_.back() += text; }

  // The declarations of all registers.
  std::string declarations() const {
    std::string text;
    const auto declare = [&](const char* type, const char* stem, int count) {
      if (count > 0) text += concat("  .reg .", type, " ", stem, "<", count, ">;\n");
    };
    declare("pred", "%p", flags_);
    declare("b16", "%h", halves_);
    declare("b32", "%r", words_);
    declare("b64", "%d", wides_);
    return text;
  }

 private:
  std::vector<std::string> texts_;
  int words_ = 0, wides_ = 0, halves_ = 0, flags_ = 0, labels_ = 0;
};

// "0f3f800000", "0d3ff0000000000000".
std::string ptx_number(double value, bool single);

}  // namespace lw
