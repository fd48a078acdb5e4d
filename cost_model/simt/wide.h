// What memories do for items in step, which load or store at once. Internal to cost_model. Pure.
#pragma once

#include "absl/container/inlined_vector.h"

namespace lw::cost::simt {

// The addresses of neighbours: indices of parts, the last of which runs fastest, and by how many
// bytes a step of each moves the address. No parts: all are at the same place.
struct Neighbours {
  struct Part {
    double count, stride_bytes;
  };
  absl::InlinedVector<Part, 2> parts;
  int lanes = 1;                           // how many of them are in step
};

// In how many pieces of `access_bytes` a memory moves what they ask for, `bytes` each.
double transactions(const Neighbours& neighbours, double bytes, double access_bytes);
// In how many cycles it does, where it has so many banks, words of 4 bytes that lie side by side,
// each of which serves one word at once, to all who ask for it.
double bank_cycles(const Neighbours& neighbours, double bytes, int banks);

}  // namespace lw::cost::simt
