#include "plain.h"

// x W first, a row at a time.
static void run_bij(void* const* arguments) {
  const float(*restrict X)[M] = arguments[0];
  const float(*restrict W)[N] = arguments[1];
  const float(*restrict Y)[N] = arguments[2];
  float* restrict Z = arguments[3];
  for (int b = 0; b < B; ++b) {
    float row[N], sum = 0;
    for (int j = 0; j < N; ++j) row[j] = 0;
    for (int i = 0; i < M; ++i)
      for (int j = 0; j < N; ++j) row[j] += X[b][i] * W[i][j];
    for (int j = 0; j < N; ++j) sum += row[j] * Y[b][j];
    Z[b] = sum;
  }
}

// W y first, a dot product at a time.
static void run_dots(void* const* arguments) {
  const float(*restrict X)[M] = arguments[0];
  const float(*restrict W)[N] = arguments[1];
  const float(*restrict Y)[N] = arguments[2];
  float* restrict Z = arguments[3];
  for (int b = 0; b < B; ++b) {
    float sum = 0;
    for (int i = 0; i < M; ++i) {
      float dot = 0;
      for (int j = 0; j < N; ++j) dot += W[i][j] * Y[b][j];
      sum += X[b][i] * dot;
    }
    Z[b] = sum;
  }
}

// The matrix once, for all rows together.
static void run_ibj(void* const* arguments) {
  const float(*restrict X)[M] = arguments[0];
  const float(*restrict W)[N] = arguments[1];
  const float(*restrict Y)[N] = arguments[2];
  float* restrict Z = arguments[3];
  for (int b = 0; b < B; ++b) Z[b] = 0;
  for (int i = 0; i < M; ++i) {
    for (int b = 0; b < B; ++b) {
      float dot = 0;
      for (int j = 0; j < N; ++j) dot += W[i][j] * Y[b][j];
      Z[b] += X[b][i] * dot;
    }
  }
}

const struct plain_order plain_loops[] = {
    {"bij", run_bij}, {"b i dots", run_dots}, {"i b dots", run_ibj}, {0, 0}};
