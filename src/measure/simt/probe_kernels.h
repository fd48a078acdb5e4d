// Small kernels that measure a device instead of a workload (opencl_probe.h). Each reads from `n` how
// often it goes round, so that no compiler knows, and ends with a write, so that none leaves it out.
#pragma once

namespace lw {

// A copy by vectors of WIDTH floats, four by an item: so many are on the way at once.
inline constexpr char kCopyKernel[] = R"(
__kernel void probe(__global const float* a, __global float* b, __global const int* n) {
  __global const floatWIDTH* from = (__global const floatWIDTH*)a;
  __global floatWIDTH* to = (__global floatWIDTH*)b;
  const size_t i = get_global_id(0), all = get_global_size(0);
  const floatWIDTH x0 = from[i], x1 = from[i + all], x2 = from[i + 2 * all],
                   x3 = from[i + 3 * all];
  to[i] = x0; to[i + all] = x1; to[i + 2 * all] = x2; to[i + 3 * all] = x3;
}
)";

// Four reads of 16 bytes a round, by all items from one end of a window of n[1] + 1 vectors, a power
// of two, to the other.
inline constexpr char kReadKernel[] = R"(
__kernel void probe(__global const float* a, __global float* b, __global const int* n) {
  __global const float4* from = (__global const float4*)a;
  const int all = get_global_size(0), count = n[0], mask = n[1];
  float4 s0 = 0, s1 = 0, s2 = 0, s3 = 0;
  int at = get_global_id(0);
  for (int i = 0; i < count; ++i) {
    s0 += from[at & mask]; s1 += from[(at + all) & mask];
    s2 += from[(at + 2 * all) & mask]; s3 += from[(at + 3 * all) & mask];
    at = (at + 4 * all) & mask;
  }
  vstore4((s0 + s1) + (s2 + s3), get_global_id(0), b);
}
)";

// Eight chains of a vector each: 8 * WIDTH multiply-adds a round.
inline constexpr char kFmaKernel[] = R"(
__kernel void probe(__global const float* a, __global float* b, __global const int* n) {
  const floatWIDTH x = a[0];
  floatWIDTH s0 = x, s1 = x + 1, s2 = x + 2, s3 = x + 3, s4 = x + 4, s5 = x + 5, s6 = x + 6,
             s7 = x + 7;
  const int count = n[0];
  for (int i = 0; i < count; ++i) {
    s0 = fma(s0, x, x); s1 = fma(s1, x, x); s2 = fma(s2, x, x); s3 = fma(s3, x, x);
    s4 = fma(s4, x, x); s5 = fma(s5, x, x); s6 = fma(s6, x, x); s7 = fma(s7, x, x);
  }
  vstoreWIDTH((s0 + s1) + (s2 + s3) + (s4 + s5) + (s6 + s7), get_global_id(0), b);
}
)";

// Four reads of 16 bytes a round, of other places each.
inline constexpr char kLocalKernel[] = R"(
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
void probe(__global const float* a, __global float* b, __global const int* n) {
  __local float4 tile[256];
  const int me = get_local_id(0), count = n[0];
  for (int i = me; i < 256; i += ITEMS) tile[i] = (float4)(a[i]);
  barrier(CLK_LOCAL_MEM_FENCE);
  float4 s0 = 0, s1 = 0, s2 = 0, s3 = 0;
  for (int i = 0; i < count; ++i) {
    const int at = me + i;
    s0 += tile[at & 255]; s1 += tile[(at + 64) & 255];
    s2 += tile[(at + 128) & 255]; s3 += tile[(at + 192) & 255];
  }
  vstore4((s0 + s1) + (s2 + s3), get_global_id(0), b);
}
)";

// Two meetings a round, between which each item reads what its neighbour has written.
inline constexpr char kBarrierKernel[] = R"(
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
void probe(__global const float* a, __global float* b, __global const int* n) {
  __local float row[ITEMS];
  const int me = get_local_id(0), count = n[0];
  float mine = a[me];
  for (int i = 0; i < count; ++i) {
    row[me] = mine;
    barrier(CLK_LOCAL_MEM_FENCE);
    mine = row[(me + 1) % ITEMS];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  b[get_global_id(0)] = mine;
}
)";

inline constexpr char kEmptyKernel[] = R"(
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void probe(__global const float* a, __global float* b, __global const int* n) {
  if (n[0] < 0) b[0] = a[0];
}
)";

}  // namespace lw
