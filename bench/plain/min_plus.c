#include <float.h>
#include <math.h>

#include "plain.h"

static void run_ijk(void* const* arguments) {
  const float(*restrict A)[K] = arguments[0];
  const float(*restrict B)[N] = arguments[1];
  float(*restrict C)[N] = arguments[2];
  for (int i = 0; i < M; ++i) {
    for (int j = 0; j < N; ++j) {
      float least = FLT_MAX;
      for (int k = 0; k < K; ++k) least = fminf(least, A[i][k] + B[k][j]);
      C[i][j] = least;
    }
  }
}

static void run_ikj(void* const* arguments) {
  const float(*restrict A)[K] = arguments[0];
  const float(*restrict B)[N] = arguments[1];
  float(*restrict C)[N] = arguments[2];
  for (int i = 0; i < M; ++i) {
    for (int j = 0; j < N; ++j) C[i][j] = FLT_MAX;
    for (int k = 0; k < K; ++k)
      for (int j = 0; j < N; ++j) C[i][j] = fminf(C[i][j], A[i][k] + B[k][j]);
  }
}

static void run_kij(void* const* arguments) {
  const float(*restrict A)[K] = arguments[0];
  const float(*restrict B)[N] = arguments[1];
  float(*restrict C)[N] = arguments[2];
  for (int i = 0; i < M; ++i)
    for (int j = 0; j < N; ++j) C[i][j] = FLT_MAX;
  for (int k = 0; k < K; ++k)
    for (int i = 0; i < M; ++i)
      for (int j = 0; j < N; ++j) C[i][j] = fminf(C[i][j], A[i][k] + B[k][j]);
}

const struct plain_order plain_loops[] = {
    {"ijk", run_ijk}, {"ikj", run_ikj}, {"kij", run_kij}, {0, 0}};
