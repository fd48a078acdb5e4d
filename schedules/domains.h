// What the domains of several steps are made of. Thread-safe, deterministic.
#pragma once

#include <cstdint>
#include <vector>

#include "schedules/nest.h"
#include "schedules/steps.h"

namespace lw {

// Factors worth trying for a loop of `trips` iterations, ascending: a roughly geometric ladder, the
// small divisors and their counterparts, and `trips` itself.
std::vector<int64_t> ladder(int64_t trips);

// Points of each axis of the stage that one run of it computes: the whole extents, except where it
// stands at a loop of a host, whose iteration reads only a box of its result.
std::vector<int64_t> region_extents(const Nest& nest, int stage);
// Points of its axis that the loop at `position`, of one axis, runs over within that box.
int64_t region_range(const Nest& nest, int stage, int position, const std::vector<int64_t>& region);

// Tail policies worth trying when the loop at `position`, over `range` points (region_range(), which
// takes longer), is cut into tiles of `tile` points: one when they come out even, else those that are
// legal and that the target supports cheaply. `fixed` >= 0: just that one, where it is legal.
std::vector<int64_t> tails(const Nest& nest, int stage, int position, int64_t range, int64_t tile,
                           int64_t fixed);

// Whether the step with these numbers applies to the nest.
bool applies(const Nest& nest, const Step& step, const Decision& numbers);

// At most `most` entries, evenly spaced; order kept.
void thin(std::vector<Decision>& decisions, size_t most);

// Number `index` of the step, `absent` when it has fewer.
int64_t number_or(const Step& step, size_t index, int64_t absent);

// Words of registers that an item of a sub-group has for a tile of matrices (targets/simt/). REQUIRES:
// stage.matrix >= 0.
int64_t matrix_words(const Nest& nest, int stage);

}  // namespace lw
