// Programs as text: an instruction a line, NAME FIELD=VALUE ... wait=S signal=S, in any order; what
// is not said has isa.h's default. Numbers are decimal, 0x hexadecimal or negative; enumerations
// are words; '#' begins a comment.
//
//   ld dram=0x1000 loc=0x0 n0=64 n1=32 dstr1=256 lstr1=64 signal=0
//   mx.ldw w=0x800 k=32 n=32 wstr=32
//   mx.mm a=0x0 m=32 astr1=64 acc=0x0 accstr=32 k=32 n=32 swap=1 wait=0 signal=2
//   halt
//
// Printing writes fields in isa.h's order, those with their default left out, so that print of
// parse of print is print. Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "src/npu/isa/isa.h"

namespace lw::npu {

// All errors at once (20 at most), a line each: "SOURCE:LINE:COLUMN: what is wrong; what to do".
// With a configuration also what check_instruction and check_program refuse.
absl::StatusOr<Program> parse_program(std::string_view text, const std::string& source,
                                      const Config* config = nullptr);

std::string print_instruction(const Instruction& instruction);
std::string print_program(const Program& program);

}  // namespace lw::npu
