// What the C interface's handles are, and how its functions answer. Texts are made when they are first
// asked for.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "loopwright/npu.h"
#include "src/npu/function/function.h"

namespace lw::npu {

class Text {
 public:
  template <class Make>
  const std::string& get(Make&& make) const {
    std::call_once(once_, [&] { text_ = make(); });
    return text_;
  }

 private:
  mutable std::once_flag once_;
  mutable std::string text_;
};

}  // namespace lw::npu

struct loopwright_npu {
  std::shared_ptr<const lw::npu::Config> config;
  lw::npu::Text json;
};

struct loopwright_npu_program {
  std::shared_ptr<const lw::npu::Program> program;
  lw::npu::Text text, image;
};

struct loopwright_npu_report {
  std::shared_ptr<const lw::npu::Config> config;
  std::shared_ptr<const lw::npu::Program> program;
  std::vector<lw::npu::Span> spans;
  lw::npu::Timing timing;
  lw::npu::FunctionReport function;
  std::string errors;
  lw::npu::Text json, text, timeline;
};

namespace lw::npu {

// Where messages go.
struct Reply {
  char* error;
  size_t size;

  int32_t say(int32_t code, std::string_view text) const;
  int32_t say(const absl::Status& status) const;
  int32_t lacks(const char* what) const;   // "WHAT is null"
};

// Runs it on `dram`, as loopwright_npu_execute does. `report`: null where nobody wants it.
int32_t execute_on(const loopwright_npu& npu, const loopwright_npu_program& program,
                   std::vector<Buffer> dram, bool races, loopwright_npu_report** report,
                   const Reply& reply);

}  // namespace lw::npu
