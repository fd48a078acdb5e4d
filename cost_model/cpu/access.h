// What one point of a stage reads and computes: the forms of its indices (schedules/access.h), from
// which the extent of the box touched inside any loop follows in closed form. Internal to
// cost_model.
//
// The draft scores tens of thousands of nests a second, so expressions are looked at once per nest,
// not once per loop. Boxes are averages over the iterations of loops, hence of fractional size.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "schedules/access.h"
#include "schedules/targets/target.h"

namespace lw::cost {

using AxisMask = uint64_t;  // bit per axis of the stage

AxisMask axes_of(const IndexForm& form);

// How many values the form takes over a box of axes (at most `size`, the dimension's).
double extent(const IndexForm& form, const double* box, double size);
// By how much it moves from one point of `axis` to the next.
double stride_of(const IndexForm& form, int axis);
// Places less than `lanes` apart, of vectors that follow `vector_axis`, to which other `axes` with
// so many points each move the form; 1 where it does not follow it element by element.
double overlapping(const IndexForm& form, int vector_axis, AxisMask axes, const double* size,
                   double lanes);

// Whether within the register tile `axis / divisor` is one number: some loop outside cuts the axis
// into parts that lie within a multiple of the divisor each.
bool keeps_quotient(const Stage& stage, int axis, int64_t divisor);

struct Access {
  int tensor = -1;
  absl::InlinedVector<IndexForm, 4> dims;
  AxisMask axes = 0;     // the ones it depends on
  bool guarded = false;  // bounds are tested where it is read
  bool leaves = false;   // some of its places are outside of the tensor: something else is read
  bool gathers = false;
  bool epilogue = false;  // read once a finished point
};

// How many points of `axis` later the one reads where the other does; 0: nowhere.
double rows_between(const Access& earlier, const Access& later, int axis);

// Arithmetic that depends on the same axes: done once for all points of a tile that agree in them.
struct Ops {
  AxisMask axes;
  double slots;  // issue slots of an arithmetic port, per vector
  bool epilogue;
};

// A condition that holds once in `divisor` iterations; elsewhere the term of the reduction is left
// out (src/lower/guards.h).
struct Multiple {
  AxisMask axes;
  double divisor;
};

struct Body {
  std::vector<Access> accesses;     // distinct ones
  absl::InlinedVector<Ops, 6> ops;  // without the step of the reduction
  absl::InlinedVector<Multiple, 2> multiples;
  bool reduces = false;
  bool fma = false;     // sum of a product: one instruction a step
  bool drifts = false;  // sum of floats that may all have one sign, so that errors add up
  const Atom* dot = nullptr;  // or one for a group of steps
  double branches = 0;  // selects and bound tests per point
};

Body make_body(const Nest& nest, int stage);

}  // namespace lw::cost
