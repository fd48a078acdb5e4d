// The dependence test, and the argument checks that steps share.
//
// A step first rewrites the nest and then asks check_legal whether what stands there still computes
// the same values (up to reassociation). All answers are kFailedPrecondition with the reason.
// Thread-safe, deterministic; a check whose bit is set in Nest::unchecked passes.
#pragma once

#include "absl/types/span.h"
#include "schedules/nest.h"
#include "schedules/steps.h"

namespace lw {

// Points of a register tile are unrolled: more than this many vectors is a code size mistake.
constexpr int64_t kMaxTileVectors = 512;
// What the tiles of a whole program should have; those of many stages have smaller ones each, or
// compiling one takes seconds.
constexpr int64_t kMaxProgramVectors = 16 * kMaxTileVectors;

struct Arity {
  int min_names, max_names, min_numbers, max_numbers;
};
absl::Status expect(const Step& step, const Arity& arity);

// The stage named first, which must run loops (not inlined, not fused onto another). E.copy:O is
// the copy of E that O reads, where others have copies of E too.
absl::StatusOr<int> target_stage(const Nest& nest, const Step& step);
// Whether the loop runs over single points of one axis, one after the other.
bool is_plain(const Loop& loop);
// Whether the stage stands at the root as it was made, its loops in place, but for what is inlined.
bool is_unscheduled(const Nest& nest, int stage);
absl::StatusOr<int> loop_position(const Stage& stage, std::string_view name);

// Decodes a tail policy.
absl::StatusOr<Tail> tail_of(int64_t number);

// Whether recomputing the neighbour's points is harmless for the loop at `position`: it is spatial,
// and no reduction loop outside it would add to memory or registers twice.
bool shift_is_harmless(const Stage& stage, int position);

// The loops of one stage.
absl::Status check_loops(const Nest& nest, int stage);
// Where stages stand relative to each other: readers inside, no parallel loop within another.
absl::Status check_places(const Nest& nest);
// Blocks of copies hold whole register tiles of the stages they serve.
absl::Status check_blocks(const Nest& nest);
// All three.
absl::Status check_legal(const Nest& nest, int stage);

// Number of loops of `host` that enclose `stage`, transitively; all of them for host itself and for
// its epilogues; -1 when it does not run inside host.
int depth_within(const Nest& nest, int stage, int host);
bool inside_parallel(const Nest& nest, int stage);
// The stage at the root at whose loops it stands, itself or by others.
int root_of(const Nest& nest, int stage);
bool has_parallel(const Stage& stage);
// Whether items of a group share a loop of its own.
bool has_items(const Stage& stage);
// Whether the items of its groups, it being at the root, may fetch together what is read at its loop at
// `loop`: all of them come there, and it does not move with a loop inside of those that they share.
// REQUIRES: has_items(root).
absl::Status check_group_reads(const Stage& root, int loop);
// Whether its groups, it being at the root, are several sub-groups.
bool has_several_sub_groups(const Stage& root);

// Cuts the loop at `position` (tile T) into sizes.size() + 1 loops NAME.0 .. NAME.n, whose tiles
// are T * sizes[0] * ... * sizes[n-1], ..., T. What stood at the loop stands at NAME.n.
absl::Status split_loop(Nest& nest, int stage, int position, absl::Span<const int64_t> sizes,
                        Tail tail);

// Replaces the adjacent loops at `position` and after it by one with the parts of both.
absl::Status merge_loops(Nest& nest, int stage, int position);

// Replaces axes a (outer) and b by one at a's position. REQUIRES: no loop runs over b, and the only
// one over a is to run over both.
void fuse_axes(Stage& stage, int a, int b);

}  // namespace lw
