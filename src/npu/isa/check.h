// What of a program a machine refuses, before any of it runs: values, alignment, capacity,
// semaphores. What it accepts never leaves a memory, whatever its order in time. Pure functions.
//
// Rules (a violation is kInvalidArgument and names instruction, field, value and what is allowed):
// - addresses and row strides in SPM are multiples of spm.align; in ACC of acc.align words;
// - k of a fold is a multiple of align.k and at most mx.R, n of align.n and at most mx.C (tiles are
//   padded; a fold costs the same however few of its rows and columns are in use);
// - rows of VE.BIN, VE.UN, VE.RED, VE.DW are multiples of ve.lanes, those of VE.REQ of align.n;
// - a semaphore has one engine that signals and one that waits;
// - types: MX of mx.dtypes; VE.REQ i8 or bf16; VE.BIN, VE.UN, VE.RED i32 and f32 (in ACC), i8 and
//   bf16 (in SPM).
#pragma once

#include "absl/status/status.h"
#include "src/npu/isa/isa.h"

namespace lw::npu {

// REQUIRES: check_config(config) is OK.
absl::Status check_program(const Config& config, const Program& program);
// The same of one instruction, without semaphores: for an assembler, which knows its line.
absl::Status check_instruction(const Config& config, const Instruction& instruction);

}  // namespace lw::npu
