// A program together with the machine that it was made for and with where its tensors lie in DRAM:
// all that whoever runs it has to know.
//
// As bytes (numbers are 64 bits, little-endian):
//   "LWNPUM\1\0"                         what it is, and the version
//   dram_bytes
//   workspace                            address, bytes
//   arguments                            how many; of each address, bytes, written (0 or 1)
//   configuration                        bytes, then as print_config() writes it
//   program                              bytes, then as make_image() writes it
// There is one form of a module: make_module(read_module(bytes)) == bytes. Values; pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "src/npu/config.h"
#include "src/npu/isa/isa.h"

namespace lw::npu {

struct DramRange {
  uint64_t address = 0, bytes = 0;
};

struct ModuleArgument {
  DramRange range;
  bool written = false;                    // by the program; others it only reads
};

struct Module {
  Config config;
  uint64_t dram_bytes = 0;                 // that the machine must have: all ranges lie below
  DramRange workspace;                     // the program's own, of no meaning before and after
  std::vector<ModuleArgument> arguments;   // in the order in which a caller gives them
  Program program;
};

bool is_module(std::string_view bytes);    // begins like one
// kInvalidArgument: ranges that overlap or lie beyond `dram_bytes`, what parse_config() or encode()
// refuses.
absl::StatusOr<std::string> make_module(const Module& module);
// kInvalidArgument: bytes that make_module() does not write; says which part of them and why. Whether
// the machine takes the program is check_program's to say (isa/check.h).
absl::StatusOr<Module> read_module(std::string_view bytes);

}  // namespace lw::npu
