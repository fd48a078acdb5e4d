// What is known of the quotients in a kernel. Internal to src/kernel.
#pragma once

#include <vector>

#include "src/kernel/kernel.h"

namespace lw {

// var = floor(of / divisor), divisor > 0
struct Quotient {
  Affine of;
  int64_t divisor;
  int var;
};

// Where `fact` >= 0 bounds what is divided by a constant, as a condition may, appends the bound of
// the quotient as a fact: a whole number, so it is tighter than what the two forms tell together.
void bound_quotients(const std::vector<Quotient>& quotients, const Affine& fact,
                     std::vector<Affine>* facts);

// As tight a form that is >= 0 where `fact` is: its variables together are a multiple of their
// coefficients' common divisor, and so is the constant that they need.
Affine whole_numbers(Affine fact);

}  // namespace lw
