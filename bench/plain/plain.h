// What a file of plain loops gives: orders of the same loops, of which the fastest counts. Extents
// are macros (-DM=512), so the compiler knows all that our kernels know.
#pragma once

struct plain_order {
  const char* name;
  void (*run)(void* const* arguments);      // inputs, then outputs, as the operator declares them
};

// The last one's name is null.
extern const struct plain_order plain_loops[];
