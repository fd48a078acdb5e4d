#include <math.h>

#include "plain.h"

#define EPSILON 1e-5f

static void run_passes(void* const* arguments) {
  const float(*restrict X)[N] = arguments[0];
  const float* restrict w = arguments[1];
  const float* restrict gain = arguments[2];
  const float* restrict bias = arguments[3];
  float(*restrict Y)[N] = arguments[4];
  for (int i = 0; i < M; ++i) {
    float mean = 0, var = 0;
    for (int j = 0; j < N; ++j) mean += w[j] * X[i][j];
    for (int j = 0; j < N; ++j) var += w[j] * (X[i][j] - mean) * (X[i][j] - mean);
    const float scale = 1 / sqrtf(fabsf(var) + EPSILON);
    for (int j = 0; j < N; ++j) Y[i][j] = (X[i][j] - mean) * scale * gain[j] + bias[j];
  }
}

// All rows' means, then all variances, then all results.
static void run_tensors(void* const* arguments) {
  const float(*restrict X)[N] = arguments[0];
  const float* restrict w = arguments[1];
  const float* restrict gain = arguments[2];
  const float* restrict bias = arguments[3];
  float(*restrict Y)[N] = arguments[4];
  static float mean[M], var[M];
  for (int i = 0; i < M; ++i) {
    float sum = 0;
    for (int j = 0; j < N; ++j) sum += w[j] * X[i][j];
    mean[i] = sum;
  }
  for (int i = 0; i < M; ++i) {
    float sum = 0;
    for (int j = 0; j < N; ++j) sum += w[j] * (X[i][j] - mean[i]) * (X[i][j] - mean[i]);
    var[i] = sum;
  }
  for (int i = 0; i < M; ++i) {
    const float scale = 1 / sqrtf(fabsf(var[i]) + EPSILON);
    for (int j = 0; j < N; ++j) Y[i][j] = (X[i][j] - mean[i]) * scale * gain[j] + bias[j];
  }
}

const struct plain_order plain_loops[] = {
    {"a row at a time", run_passes}, {"tensor by tensor", run_tensors}, {0, 0}};
