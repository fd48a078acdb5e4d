#include "plain.h"

// Along the rows, then along the columns, through a picture of its own.
static void run_pictures(void* const* arguments) {
  const float(*restrict X)[W] = arguments[0];
  const float* restrict g = arguments[1];
  float(*restrict Y)[W] = arguments[2];
  static float T[H][W];
  for (int y = 0; y < H; ++y) {
    for (int x = 0; x < R / 2; ++x) {
      float left = 0, right = 0;
      for (int s = R / 2 - x; s < R; ++s) left += X[y][x + s - R / 2] * g[s];
      for (int s = 0; s < R / 2 + 1 + x; ++s) right += X[y][W - 1 - x + s - R / 2] * g[s];
      T[y][x] = left;
      T[y][W - 1 - x] = right;
    }
    for (int x = R / 2; x < W - R / 2; ++x) {
      float sum = 0;
      for (int s = 0; s < R; ++s) sum += X[y][x + s - R / 2] * g[s];
      T[y][x] = sum;
    }
  }
  for (int y = 0; y < H; ++y) {
    for (int x = 0; x < W; ++x) Y[y][x] = 0;
    for (int r = 0; r < R; ++r) {
      const int from = y + r - R / 2;
      if (from < 0 || from >= H) continue;
      for (int x = 0; x < W; ++x) Y[y][x] += T[from][x] * g[r];
    }
  }
}

// Along the columns first, a row at a time, through one row.
static void run_rows(void* const* arguments) {
  const float(*restrict X)[W] = arguments[0];
  const float* restrict g = arguments[1];
  float(*restrict Y)[W] = arguments[2];
  for (int y = 0; y < H; ++y) {
    float row[W + 2 * (R / 2)];
    for (int x = 0; x < W + 2 * (R / 2); ++x) row[x] = 0;
    for (int r = 0; r < R; ++r) {
      const int from = y + r - R / 2;
      if (from < 0 || from >= H) continue;
      for (int x = 0; x < W; ++x) row[x + R / 2] += X[from][x] * g[r];
    }
    for (int x = 0; x < W; ++x) {
      float sum = 0;
      for (int s = 0; s < R; ++s) sum += row[x + s] * g[s];
      Y[y][x] = sum;
    }
  }
}

const struct plain_order plain_loops[] = {
    {"two pictures", run_pictures}, {"a row at a time", run_rows}, {0, 0}};
