#include "src/npu/module.h"

#include <algorithm>

#include "src/base/check.h"
#include "src/base/message.h"
#include "src/npu/isa/encode.h"

namespace lw::npu {
namespace {

constexpr std::string_view kMagic("LWNPUM\1\0", 8);
constexpr uint64_t kMostDram = uint64_t{1} << 40;  // what an address has bits for

absl::Status bad(std::string_view what) {
  return absl::InvalidArgumentError(concat("NPU module: ", what));
}

absl::Status in_program(const absl::Status& status) {
  return bad(concat("program: ", std::string(status.message())));
}

absl::StatusOr<Config> parse_part(std::string_view config) {
  absl::StatusOr<Config> parsed = parse_config(config, "configuration");
  if (!parsed.ok()) return bad(std::string(parsed.status().message()));
  return parsed;
}

std::string text_of(const DramRange& range) {
  return concat("[", range.address, ", ", range.address + range.bytes, ")");
}

absl::Status check_layout(const Module& module) {
  if (module.dram_bytes > kMostDram) {
    return bad(concat(module.dram_bytes, " bytes of DRAM are more than 2^40"));
  }
  struct Named {
    DramRange range;
    std::string name;
  };
  std::vector<Named> all = {{module.workspace, "the workspace"}};
  for (size_t i = 0; i < module.arguments.size(); ++i) {
    all.push_back({module.arguments[i].range, concat("argument ", i)});
  }
  for (const Named& one : all) {
    const uint64_t most = module.dram_bytes;
    if (one.range.address <= most && one.range.bytes <= most - one.range.address) continue;
    return bad(concat(one.name, ", ", one.range.bytes, " bytes at ", one.range.address,
                      ", lies beyond the ", most, " bytes of DRAM"));
  }
  std::erase_if(all, [](const Named& one) { return one.range.bytes == 0; });
  std::stable_sort(all.begin(), all.end(), [](const Named& a, const Named& b) {
    return a.range.address < b.range.address;
  });
  for (size_t i = 1; i < all.size(); ++i) {
    const DramRange& before = all[i - 1].range;
    if (before.address + before.bytes <= all[i].range.address) continue;
    return bad(concat(all[i - 1].name, " at ", text_of(before), " overlaps ", all[i].name, " at ",
                      text_of(all[i].range)));
  }
  return absl::OkStatus();
}

void put(uint64_t number, std::string* bytes) {
  for (int i = 0; i < 8; ++i) bytes->push_back(static_cast<char>(number >> (8 * i)));
}

// What is there, part after part; the first that is cut short is remembered.
class Parts {
 public:
  explicit Parts(std::string_view bytes) : rest_(bytes) {}

  uint64_t number(const char* part) {
    const std::string_view bytes = text(part, 8);
    uint64_t value = 0;
    for (size_t i = 0; i < bytes.size(); ++i) {
      value |= static_cast<uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
    }
    return value;
  }
  // Nothing, where there are not so many bytes.
  std::string_view text(const char* part, uint64_t length) {
    if (length > rest_.size() || cut_ != nullptr) {
      if (cut_ == nullptr) cut_ = part;
      return "";
    }
    const std::string_view found = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return found;
  }
  size_t left() const { return rest_.size(); }
  const char* cut() const { return cut_; }  // null: none

 private:
  std::string_view rest_;
  const char* cut_ = nullptr;
};

}  // namespace

bool is_module(std::string_view bytes) { return bytes.starts_with(kMagic.substr(0, 6)); }

absl::StatusOr<std::string> make_module(const Module& module) {
  const std::string config = print_config(module.config);
  RETURN_IF_ERROR(parse_part(config).status());
  RETURN_IF_ERROR(check_layout(module));
  const absl::StatusOr<std::string> image = make_image(module.program);
  if (!image.ok()) return in_program(image.status());
  std::string bytes(kMagic);
  put(module.dram_bytes, &bytes);
  put(module.workspace.address, &bytes);
  put(module.workspace.bytes, &bytes);
  put(module.arguments.size(), &bytes);
  for (const ModuleArgument& argument : module.arguments) {
    put(argument.range.address, &bytes);
    put(argument.range.bytes, &bytes);
    put(argument.written, &bytes);
  }
  put(config.size(), &bytes);
  bytes += config;
  put(image->size(), &bytes);
  return bytes + *image;
}

absl::StatusOr<Module> read_module(std::string_view bytes) {
  Parts parts(bytes);
  const std::string_view magic = parts.text("its name", kMagic.size());
  if (!is_module(magic)) {
    return absl::InvalidArgumentError("no module of a program for the NPU");
  }
  if (magic != kMagic) {
    return bad(concat("version ", int{static_cast<unsigned char>(magic[6])},
                      "; this program reads version 1"));
  }
  Module module;
  module.dram_bytes = parts.number("dram_bytes");
  module.workspace.address = parts.number("workspace");
  module.workspace.bytes = parts.number("workspace");
  const uint64_t count = parts.number("arguments");
  if (count > parts.left()) return bad(concat("it cannot have ", count, " arguments"));
  for (uint64_t i = 0; i < count && parts.cut() == nullptr; ++i) {
    ModuleArgument argument;
    argument.range.address = parts.number("arguments");
    argument.range.bytes = parts.number("arguments");
    const uint64_t written = parts.number("arguments");
    if (written > 1) return bad(concat("argument ", i, ": written is 0 or 1, not ", written));
    argument.written = written == 1;
    module.arguments.push_back(argument);
  }
  const std::string_view config = parts.text("configuration", parts.number("configuration"));
  const std::string_view image = parts.text("program", parts.number("program"));
  if (parts.cut() != nullptr) return bad(concat("cut short in its ", parts.cut()));
  if (parts.left() > 0) return bad(concat(parts.left(), " bytes behind its end"));

  ASSIGN_OR_RETURN(module.config, parse_part(config));
  if (print_config(module.config) != config) {
    return bad("configuration: not as print_config() writes it");
  }
  absl::StatusOr<Program> program = read_image(image);
  if (!program.ok()) return in_program(program.status());
  module.program = *std::move(program);
  RETURN_IF_ERROR(check_layout(module));
  return module;
}

}  // namespace lw::npu
