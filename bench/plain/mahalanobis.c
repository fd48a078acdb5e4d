#include <math.h>

#include "plain.h"

static void run_bij(void* const* arguments) {
  const float(*restrict X)[N] = arguments[0];
  const float* restrict mean = arguments[1];
  const float(*restrict P)[N] = arguments[2];
  float* restrict D = arguments[3];
  for (int b = 0; b < B; ++b) {
    float e[N], row[N], sum = 0;
    for (int i = 0; i < N; ++i) e[i] = X[b][i] - mean[i];
    for (int j = 0; j < N; ++j) row[j] = 0;
    for (int i = 0; i < N; ++i)
      for (int j = 0; j < N; ++j) row[j] += e[i] * P[i][j];
    for (int j = 0; j < N; ++j) sum += row[j] * e[j];
    D[b] = sqrtf(fabsf(sum));
  }
}

static void run_dots(void* const* arguments) {
  const float(*restrict X)[N] = arguments[0];
  const float* restrict mean = arguments[1];
  const float(*restrict P)[N] = arguments[2];
  float* restrict D = arguments[3];
  for (int b = 0; b < B; ++b) {
    float e[N], sum = 0;
    for (int i = 0; i < N; ++i) e[i] = X[b][i] - mean[i];
    for (int i = 0; i < N; ++i) {
      float dot = 0;
      for (int j = 0; j < N; ++j) dot += P[i][j] * e[j];
      sum += e[i] * dot;
    }
    D[b] = sqrtf(fabsf(sum));
  }
}

const struct plain_order plain_loops[] = {{"bij", run_bij}, {"b i dots", run_dots}, {0, 0}};
