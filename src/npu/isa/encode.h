// Programs as bytes: what a machine would fetch, and what `npu_sim assemble` writes. Part of the
// stored format: a field's place never changes.
//
// A word is 32 bytes, little-endian: a header of 64 bits and a body of 192; fields lie one after
// the other from bit 0 up, in the order in which isa.h has them, each least significant bit first.
//   header  op:6 eng:2 wait0:6 valid:1 wait1:6 valid:1 sig0:6 valid:1 sig1:6 valid:1 dtype:3
//           flags:8 reserved:17; flags and reserved are 0
//   EXT     a word with op 63 that follows an instruction one of whose extension fields is not its
//           default; the rest of its header repeats nothing: 0. Its body has the extension fields
// What an absent EXT leaves are the defaults of isa.h. Every other bit is 0. There is one encoding
// of an instruction: encode(decode(bytes)) == bytes and decode(encode(program)) == program.
//
// An image is "LWNPU\0\1\0", the number of words as 64 bits, and the words. Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "src/npu/isa/isa.h"

namespace lw::npu {

inline constexpr size_t kWordBytes = 32;

// The words alone. kInvalidArgument: a number is too large for its field ("instruction 3 (ld): n1 =
// 5000 has more than 12 bits"), or a semaphore's.
absl::StatusOr<std::string> encode(const Program& program);
// kInvalidArgument: bytes that encode() does not write; says at which word and why.
absl::StatusOr<Program> decode(std::string_view words);

absl::StatusOr<std::string> make_image(const Program& program);
absl::StatusOr<Program> read_image(std::string_view bytes);
bool is_image(std::string_view bytes);     // begins like one

}  // namespace lw::npu
