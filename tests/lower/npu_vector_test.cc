// What the vector engine of an NPU computes, from a draw of the space to what the simulated machine
// makes of it: maps, reductions, requantisation, several stages, whatever the extents, against the
// reference, without races.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "loopwright/program.h"
#include "schedules/steps.h"
#include "schedules/targets/target.h"
#include "src/base/rng.h"
#include "src/build/build.h"
#include "src/expr/element.h"
#include "src/expr/reference/interpret.h"
#include "src/lower/lower.h"
#include "src/npu/function/function.h"
#include "src/npu/module.h"
#include "tests/support/parsed_program.h"
#include "tests/support/program.h"

namespace lw {
namespace {

const char* const kVectorTargets[] = {"npu_edge16", "npu_mid32", "npu_big128"};

// Programs of extents M, N, K (odd or even, small or not) and C, a few channels or many.
const char* const kMaps[] = {
    "in A: f32[M, N]\n in B: f32[M, N]\n out Y[i: M, j: N] = A[i, j] + B[i, j]",
    "in A: f32[M, N]\n in b: f32[N]\n out Y[i: M, j: N] = max(A[i, j] - b[j], 0) * 0.5",
    "in A: f32[M, N]\n in b: f32[M]\n out Y[i: M, j: N] = b[i] - A[i, j] * b[i]",
    "in A: f32[M, N]\n in b: f32[M]\n out Y[i: M, j: N] = A[i, j] / (2 + abs(b[i]))",
    "in A: f32[K, M, N]\n in b: f32[K, N]\n out Y[k: K, i: M, j: N] = A[k, i, j] * b[k, j] + 1.5",
    "in A: f32[M]\n out Y[i: M] = exp(A[i]) * sigmoid(A[i])",
    "in A: f32[M, N]\n out Y[i: M, j: N] = sqrt(abs(A[i, j])) + rsqrt(1 + A[i, j] * A[i, j])",
    "in A: f32[M, N]\n out Y[i: M, j: N] = tanh(A[i, j] * 9 * (A[i, j] * A[i, j]))",
    "in A: f32[M, N]\n out Y[i: M, j: N] = erf(A[i, j] * 4 * (A[i, j] * A[i, j]))",
    "in A: f32[M]\n out Y[i: M, j: N] = 2 - A[i]",
    "in A: f32[M, N]\n out Y[i: M, j: N] = 3 / (1.5 + abs(A[i, j])) - -A[i, j]",
    "out Y[i: M, j: N] = cast(f32, 2.5)",
    "in A: f32[M, N]\n out Y[i: M] = A[i, 0] + A[i, 1]",
    // Of 16-bit floats.
    "in A: bf16[M, N]\n in B: bf16[M, N]\n out Y[i: M, j: N] = cast(bf16, A[i, j] * B[i, j] + 1)",
    "in A: bf16[M, N]\n out Y[i: M, j: N] = cast(f32, A[i, j])",
    ("in A: bf16[M, N]\n"
     " out Y[i: M, j: N] = A[i, j] * 0.5 * (1 + erf(A[i, j] * sqrt(0.5))) + tanh(A[i, j])"),
    "in A: f32[M]\n out Y[i: M] = cast(bf16, A[i])",
    // Of integers.
    "in A: i32[M, N]\n in B: i32[N]\n out Y[i: M, j: N] = max(A[i, j] + B[j] * 3, -7)",
    "in A: i8[M, N]\n in B: i8[M, N]\n out Y[i: M, j: N] = cast(i32, A[i, j]) - cast(i32, B[i, j])",
    "in A: i8[M, N]\n in B: i8[N]\n out Y[i: M, j: N] = max(min(A[i, j], B[j]), 0)",
    // Copies.
    "in A: f32[M, N]\n out Y[j: N, i: M] = A[i, j]",
    "in A: i8[K, M, N]\n out Y[i: M, k: K, j: N] = A[k, i, j]",
    "in A: bf16[M, N]\n out Y[j: N, i: M] = A[i, j]",
    "in A: i8[N]\n out Y[i: M, j: N] = A[j]",
};
// What is chosen by indices and by data: along vectors and across them, of several axes, of numbers
// or not; what is not chosen may be infinite or no number.
const char* const kChosen[] = {
    "in A: f32[M, N]\n out Y[i: M, j: N] = where(j <= i, A[i, j], -inf)",
    "in A: f32[M, N]\n out Y[i: M, j: N] = where(j < 5, 2.5, A[i, j])",
    "in A: f32[M, N]\n out Y[i: M, j: N] = where(i >= 3, A[i, j] / (A[i, j] - A[i, j]), 0)",
    "in A: f32[M, N]\n in b: f32[M]\n in c: f32[N]\n"
    " out Y[i: M, j: N] = where(i == j, A[i, j] / 0.5, 0) + where(i != j, b[i], c[j])",
    "in A: f32[M, N]\n in B: f32[M, N]\n"
    " out Y[i: M, j: N] = where(2 * i - j > 4, A[i, j], B[i, j] / (B[i, j] - B[i, j]))",
    "in A: f32[K, M, N]\n out Y[k: K, i: M, j: N] ="
    " where(k + j < i && j > 2 || i == k, A[k, i, j], 1 / (A[k, i, j] - A[k, i, j]))",
    "in A: f32[K, M, N]\n out Y[k: K, i: M, j: N] = where(!(k > i + 1), A[k, i, j], 3)",
    "in A: f32[M]\n out Y[i: M] = where(i > 9, A[i], where(i > 3, 1, -1))",
    "in A: i32[M, N]\n in b: i32[N]\n out Y[i: M, j: N] = where(3 * j >= i, A[i, j], b[j] - 7)",
    "in A: i8[M, N]\n out Y[i: M, j: N] = where(i < j, cast(i32, A[i, j]), 100000)",
    "in A: bf16[M, N]\n out Y[j: N, i: M] = cast(bf16, where(i + j < 20, A[i, j], 1.5))",
    "in A: f32[M, N]\n out Y[i: M] = sum[j: N](where(j <= i, A[i, j], 0))",
    "in A: f32[M, N]\n out Y[i: M] = max[j: N](where(j <= i, A[i, j], -inf))",
    "in A: f32[M, N]\n out Y[j: N] = sum[i: M](where(j <= 2 * i, A[i, j], 0))",
    // By data.
    "in A: f32[M, N]\n out Y[i: M, j: N] = where(A[i, j] > 0, A[i, j], 0.125 * A[i, j])",
    "in A: f32[M, N]\n in b: f32[M]\n in c: f32[N]\n out Y[i: M, j: N] ="
    " where(b[i] < A[i, j] && 1.5 > A[i, j] || c[j] > b[i], A[i, j], c[j] / 0)",
    "in A: i32[M, N]\n in b: i32[M]\n out Y[i: M, j: N] ="
    " where(b[i] <= A[i, j], A[i, j], -1) + where(A[i, j] >= 70, 2, b[i])"
    " + where(b[i] != A[i, j], 10 - b[i], 20)",
    "in A: bf16[M, N]\n in B: i8[M, N]\n out Y[i: M, j: N] ="
    " cast(bf16, where(cast(i32, B[i, j]) == 3 && j > 2, A[i, j],"
    " where(!(cast(i32, B[i, j]) > 0), 1, 2)))",
    "in A: f32[K, M]\n out Y[k: K, i: M] = where(k > K, A[k, i], 4) - where(0 > 1, A[k, i], 1)",
};
const char* const kReductions[] = {
    "in A: f32[M, N]\n out Y[i: M] = sum[j: N](A[i, j])",
    "in A: f32[M, N]\n out Y[i: M] = max[j: N](A[i, j])",
    "in A: f32[M, N]\n out Y[j: N] = sum[i: M](A[i, j])",
    "in A: f32[M, N]\n out Y[j: N] = min[i: M](A[i, j])",
    "in A: f32[M, N]\n in b: f32[M]\n"
    " out Y[i: M] = sum[j: N]((A[i, j] - b[i]) * (A[i, j] - b[i]))",
    "in A: f32[M, N]\n in b: f32[M]\n out Y[i: M] = max[j: N](abs(A[i, j] - b[i]))",
    "in A: f32[K, M, N]\n out Y[k: K] = sum[i: M, j: N](A[k, i, j] * A[k, i, j])",
    "in A: f32[M, N]\n out Y[u: 1] = sum[i: M, j: N](A[i, j])",
    "in A: f32[K, M]\n out Y[k: K] = min[i: M](A[k, i])",
    "in A: f32[M, 7]\n out Y[i: M] = prod[j: 7](A[i, j])",
    // A matrix and a vector.
    "in A: bf16[M]\n in B: bf16[M, N]\n out Y[j: N] = sum[k: M](A[k] * B[k, j])",
    "in A: i8[M, N]\n in x: i8[N]\n"
    " out Y[i: M] = sum[k: N](cast(i32, A[i, k]) * cast(i32, x[k]))",
    "in A: i8[K, M]\n in B: i8[K, M, N]\n out Y[b: K, j: N] = sum[k: M](A[b, k] * B[b, k, j])",
    "in A: bf16[1, M]\n in B: bf16[M, N]\n out Y[j: N] = sum[k: M](A[0, k] * B[k, j])",
    "in A: i8[M, N]\n out Y[i: M] = sum[j: N](A[i, j])",
    "in A: i8[M, N]\n out Y[i: M] = max[j: N](A[i, j])",
    "in A: i32[M, N]\n out Y[i: M] = max[j: N](A[i, j])",
    "in A: bf16[M, N]\n out Y[j: N] = max[i: M](A[i, j])",
    "in A: bf16[M, N]\n out Y[i: M] = sum[j: N](A[i, j])",
    // Pooling and channels.
    "in X: f32[2, 9, 11, C]\n"
    " out Y[n: 2, y: 4, x: 5, c: C] = max[r: 3, s: 3](X[n, 2 * y + r, 2 * x + s, c])",
    "in X: i8[2, 9, 11, C]\n"
    " out Y[n: 2, y: 7, x: 9, c: C] = max[r: 3, s: 3](X[n, y + r, x + s, c])",
    "in X: f32[2, 9, 11, C]\n out Y[n: 2, c: C] = sum[y: 9, x: 11](X[n, y, x, c])",
    "in X: i8[9, 11, C]\n in W: i8[3, 3, C]\n"
    " out Y[y: 7, x: 9, c: C] = sum[r: 3, s: 3](X[y + r, x + s, c] * W[r, s, c])",
};
const char* const kRequantised[] = {
    "in S: i32[M, N]\n in b: i32[N]\n in s: f32[N]\n out Y[i: M, j: N] ="
    " cast(i8, clamp(round(cast(f32, S[i, j] + b[j]) * s[j]) + 3, -100, 90))",
    "in S: i32[M, N]\n in s: f32[N]\n"
    " out Y[i: M, j: N] = cast(i8, round(cast(f32, S[i, j]) * s[j]))",
    "in S: i32[M, N]\n in b: i32[N]\n out Y[i: M, j: N] ="
    " cast(i8, max(round(0.0123 * cast(f32, b[j] + S[i, j])) - 5, -5))",
    "in S: i32[M]\n in s: f32[1]\n out Y[i: M] = cast(i8, round(cast(f32, S[i]) * s[0]) + 1)",
    "in S: i32[K, M, N]\n in R: i8[K, M, N]\n in b: i32[N]\n out Y[k: K, i: M, j: N] ="
    " cast(i8, clamp(S[k, i, j] + cast(i32, R[k, i, j]) + b[j], -128, 127))",
};
const char* const kStages[] = {
    "in X: f32[M, N]\n top[i: M] = max[j: N](X[i, j])\n E[i: M, j: N] = exp(X[i, j] - top[i])\n"
    " total[i: M] = sum[j: N](E[i, j])\n out Y[i: M, j: N] = E[i, j] / total[i]",
    "in X: f32[M, N]\n in g: f32[N]\n mean[i: M] = sum[j: N](X[i, j]) / N\n"
    " var[i: M] = sum[j: N]((X[i, j] - mean[i]) * (X[i, j] - mean[i])) / N\n"
    " out Y[i: M, j: N] = (X[i, j] - mean[i]) * rsqrt(var[i] + 1e-5) * g[j]",
    "in A: i8[M, K]\n in B: i8[K, N]\n in b: i32[N]\n in s: f32[N]\n"
    " S[i: M, j: N] = sum[k: K](A[i, k] * B[k, j])\n"
    " out Y[i: M, j: N] = cast(i8, clamp(round(cast(f32, S[i, j] + b[j]) * s[j]), 0, 127))",
};

// Reductions that the stage which needs them has in its boxes, or not: along rows and across them,
// along several axes, one within another, of what a reader's axis is called otherwise; at the ends
// of rows infinities and no numbers come of what no row has.
const char* const kRows[] = {
    "in X: bf16[M, N]\n top[i: M] = max[j: N](X[i, j])\n"
    " E[i: M, j: N] = exp(cast(f32, X[i, j]) - cast(f32, top[i]))\n"
    " total[i: M] = sum[j: N](E[i, j])\n"
    " out Y[i: M, j: N] = cast(bf16, E[i, j] / total[i])",
    "in X: f32[M, N]\n top[j: N] = max[i: M](X[i, j])\n out Y[i: M, j: N] = X[i, j] - top[j]",
    "in X: f32[K, M, C]\n s[k: K] = sum[i: M, c: C](X[k, i, c])\n"
    " out Y[k: K, i: M, c: C] = X[k, i, c] * s[k]",
    "in X: f32[K, M, C]\n s[k: K, c: C] = min[i: M](X[k, i, c])\n"
    " out Y[k: K, i: M, c: C] = X[k, i, c] - s[k, c]",
    "in X: f32[M, N]\n top[i: M] = max[j: N](X[i, j])\n"
    " out Y[i: M] = sum[j: N](exp(X[i, j] - top[i]))",
    "in X: f32[M, N]\n s[i: M] = sum[j: N](X[i, j])\n c[j: N] = max[i: M](X[i, j])\n"
    " out Y[i: M, j: N] = X[i, j] * s[i] + c[j]",
    "in X: f32[M, M]\n in Z: f32[M, M]\n s[i: M] = sum[k: M](X[k, i])\n"
    " out Y[i: M, j: M] = Z[i, j] * s[i]",
    "in A: f32[M, N]\n in B: f32[M, N]\n s[i: M] = sum[j: N](A[i, j] * B[i, j])\n"
    " top[i: M] = max[j: N](abs(B[i, j]))\n out Y[i: M, j: N] = A[i, j] * s[i] - top[i]",
    "in X: i32[M, N]\n top[i: M] = max[j: N](X[i, j])\n s[i: M] = sum[j: N](X[i, j])\n"
    " out Y[i: M, j: N] = max(X[i, j] - top[i], s[i])",
    "in X: i8[M, N]\n s[i: M] = sum[j: N](cast(i32, X[i, j]))\n"
    " out Y[i: M, j: N] = cast(i32, X[i, j]) - s[i]",
    "in X: f32[M, N]\n q[i: M, j: N] = 1 / abs(X[i, j])\n"
    " s[i: M] = sum[j: N](q[i, j] * 2 - q[i, j])\n top[i: M] = max[j: N](q[i, j] * 3 - q[i, j])\n"
    " out Y[i: M, j: N] = q[i, j] / s[i] + top[i]",
    "in X: f32[1, M, N]\n top[u: 1, i: M] = max[j: N](X[u, i, j])\n"
    " out Y[u: 1, i: M, j: N] = X[u, i, j] - top[u, i]",
    "in X: f32[1, N]\n s[u: 1] = sum[j: N](X[u, j])\n out Y[u: 1, j: N] = X[u, j] * s[u]",
    "in X: f32[M, N]\n in g: f32[M]\n s[i: M] = sum[j: N](X[i, j] * g[i])\n"
    " r[i: M] = s[i] * 0.5\n d[i: M] = max[j: N](X[i, j] - r[i])\n"
    " out Y[i: M, j: N] = X[i, j] * d[i] + r[i]",
};

// A product whose results are finished where they are held.
const char* const kFinished[] = {
    "in A: i8[M, K]\n in B: i8[K, N]\n in b: i32[N]\n in s: f32[N]\n"
    " S[i: M, j: N] = sum[k: K](A[i, k] * B[k, j])\n"
    " out Y[i: M, j: N] = cast(i8, clamp(round(cast(f32, S[i, j] + b[j]) * s[j]) - 9, -9, 127))",
    "in A: i8[M, K]\n in B: i8[K, N]\n in R: i8[M, N]\n in b: i32[N]\n"
    " S[i: M, j: N] = sum[k: K](A[i, k] * B[k, j])\n out Y[i: M, j: N] ="
    " cast(i8, round(cast(f32, S[i, j] + cast(i32, R[i, j]) * 20 + b[j]) * 0.01))",
    "in A: bf16[M, K]\n in B: bf16[K, N]\n in b: f32[N]\n in c: f32[M]\n"
    " S[i: M, j: N] = sum[k: K](A[i, k] * B[k, j])\n"
    " out Y[i: M, j: N] = cast(bf16, max(S[i, j] * c[i] + b[j], 0))",
    "in A: i8[M, K]\n in B: i8[K, N]\n S[i: M, j: N] = sum[k: K](A[i, k] * B[k, j])\n"
    " out Y[i: M, j: N] = S[i, j] * 3 - 1",
    "in A: i8[M, K]\n in B: i8[K, N]\n in b: i32[N]\n in s: f32[N]\n"
    " S[i: M, j: N] = sum[k: K](A[i, k] * B[k, j])\n T[i: M, j: N] = S[i, j] + b[j]\n"
    " U[i: M, j: N] = max(T[i, j], 0)\n"
    " out Y[i: M, j: N] = cast(i8, round(cast(f32, U[i, j]) * s[j]))",
    // With what their rows have in common.
    "in A: bf16[M, K]\n in B: bf16[K, N]\n S[i: M, j: N] = sum[k: K](A[i, k] * B[k, j])\n"
    " top[i: M] = max[j: N](S[i, j])\n E[i: M, j: N] = exp(S[i, j] - top[i])\n"
    " total[i: M] = sum[j: N](E[i, j])\n out Y[i: M, j: N] = cast(bf16, E[i, j] / total[i])",
    "in A: bf16[M, K]\n in B: bf16[K, N]\n in R: bf16[M, N]\n in g: f32[N]\n"
    " S[i: M, j: N] = sum[k: K](A[i, k] * B[k, j])\n T[i: M, j: N] = S[i, j] + cast(f32, R[i, j])\n"
    " mean[i: M] = sum[j: N](T[i, j]) / N\n"
    " var[i: M] = sum[j: N]((T[i, j] - mean[i]) * (T[i, j] - mean[i])) / N\n"
    " out Y[i: M, j: N] = (T[i, j] - mean[i]) * rsqrt(var[i] + 1e-5) * g[j]",
    "in A: i8[M, K]\n in B: i8[K, N]\n S[i: M, j: N] = sum[k: K](A[i, k] * B[k, j])\n"
    " top[i: M] = max[j: N](S[i, j])\n out Y[i: M, j: N] = S[i, j] - top[i]",
    "in A: i8[M, K]\n in B: i8[K, N]\n S[i: M, j: N] = sum[k: K](A[i, k] * B[k, j])\n"
    " top[j: N] = max[i: M](S[i, j])\n out Y[i: M, j: N] = S[i, j] - top[j]",
    // Of sums that nobody reads but where they are chosen; or that somebody does.
    "in A: bf16[M, K]\n in B: bf16[N, K]\n"
    " P[i: M, j: N] = where(j <= i, sum[k: K](A[i, k] * B[j, k]) * 0.3, -inf)\n"
    " top[i: M] = max[j: N](P[i, j])\n E[i: M, j: N] = exp(P[i, j] - top[i])\n"
    " total[i: M] = sum[j: N](E[i, j])\n out Y[i: M, j: N] = cast(bf16, E[i, j] / total[i])",
    "in A: i8[M, K]\n in B: i8[K, N]\n"
    " S[i: M, j: N] = where(i < j, sum[k: K](A[i, k] * B[k, j]), -1)\n"
    " out Y[i: M, j: N] = S[i, j] * 3 + 1",
};

// Windows of which some reach into the padding, or are all there; in brackets what window() says: I
// the picture's extents, O the result's axes, R the window's, P where it is read, W the weights'
// extents and w where they are read, C of the channels.
const char* const kWindows[] = {
    "in X: f32[I]\n out Y[O] = max[R](pad(X[P], -inf))",
    "in X: bf16[I]\n out Y[O] = max[R](pad(X[P], -inf))",
    "in X: i8[I]\n out Y[O] = max[R](pad(X[P], -128))",
    "in X: i32[I]\n out Y[O] = min[R](pad(X[P], 100000))",
    "in X: f32[I]\n out Y[O] = min[R](pad(X[P], 0.3))",
    "in X: f32[I]\n out Y[O] = sum[R](pad(X[P], 0)) * 0.25",
    "in X: bf16[I]\n in F: bf16[W]\n out Y[O] = sum[R](pad(X[P], 0) * F[w])",
    "in X: f32[I]\n in F: f32[W]\n out Y[O] = sum[R](pad(X[P], 3) * F[w])",
    "in X: i8[I]\n in F: i8[W]\n in b: i32[C]\n in m: f32[C]\n"
    " S[O] = sum[R](cast(i32, pad(X[P], 0)) * cast(i32, F[w]))\n"
    " out Y[O] = cast(i8, clamp(round(cast(f32, S[n, y, x, c] + b[c]) * m[c]) - 1, -100, 120))",
    "in X: i8[I]\n out Y[O] = sum[R](cast(i32, pad(X[P], -5)))",
};
// The same of rows that are padded themselves, and maps.
const char* const kPadded[] = {
    "in X: f32[M, N]\n out Y[i: M] = sum[j: N](pad(X[i - 2, j], 0.5))",
    "in X: f32[M, N]\n out Y[i: M] = max[j: N](pad(X[i - 1, j], -inf))",
    "in X: i8[M, N]\n out Y[i: M] = sum[j: N](pad(X[i + 1, j], 0))",
    "in X: i32[K]\n out Y[i: K] = pad(X[i - 3], 7) + 1",
    "in X: i8[K, M]\n out Y[k: K, i: M] = pad(X[k - 3, i + 2], 1)",
    "in X: f32[K, C]\n out Y[i: K, c: C] = pad(X[i * 2 - 1, c], 0)",
    "in X: bf16[K, C]\n in Z: f32[K, C]\n"
    " out Y[i: K, c: C] = max(cast(f32, pad(X[i - 1, c], 2)) * Z[i, c],"
    " cast(f32, pad(X[i + 1, c], -300)))",
    ("in X: f32[K, 9, 11]\n"
     " out Y[k: K, y: 9, x: 11] = max[r: 3, s: 3](pad(X[k, y + r - 1, x + s - 1], -inf))"),
    "in X: f32[1, K]\n out Y[u: 1, i: K] = max[r: 2](pad(X[u + 3, i + r], 4))",
};

std::string replaced(std::string text, const std::string& from, int64_t to) {
  for (size_t at = 0; (at = text.find(from, at)) != text.npos;) {
    const bool word = at + 1 < text.size() && (std::isalnum(text[at + 1]) || text[at + 1] == '_');
    const bool tail = at > 0 && std::isalnum(text[at - 1]);
    if (word || tail) ++at;
    else text.replace(at, from.size(), std::to_string(to));
  }
  return text;
}

class NpuVector : public testing::Test {
 protected:
  Rng rng_{static_cast<uint64_t>(setting("LW_SEED", 1))};
  int64_t drawn_ = 0, feasible_ = 0;
  bool magnitudes_ = false;                // f32 of all of them, not natural

  int64_t extent() { return 2 + static_cast<int64_t>(rng_.below(rng_.below(4) ? 70 : 400)); }

  // Sums of all sizes, so that some saturate, some do not; the rest natural numbers.
  Data input(const Program& program, int tensor, uint64_t seed) {
    Data data = random_input(program, tensor, seed, false);
    const Type type = program.tensors[static_cast<size_t>(tensor)].type;
    for (size_t i = 0; magnitudes_ && type == Type::kF32 && i + 4 <= data.bytes.size(); i += 4) {
      const int exponent = static_cast<int>(rng_.below(2) ? rng_.below(12) : rng_.below(252));
      const float mantissa = 1 + std::ldexp(static_cast<float>(rng_.below(1 << 23)), -23);
      const float value = std::ldexp(rng_.below(2) ? mantissa : -mantissa,
                                     exponent < 12 ? exponent - 8 : exponent - 125);
      std::memcpy(&data.bytes[i], &value, 4);
    }
    if (type != Type::kI32) return data;
    for (size_t i = 0; i + 4 <= data.bytes.size(); i += 4) {
      const int32_t value = static_cast<int32_t>(static_cast<uint32_t>(rng_.next())) >>
                            (8 + rng_.below(20));
      std::memcpy(&data.bytes[i], &value, 4);
    }
    return data;
  }

  void expect_reference(const Program& program, const std::vector<Data>& in,
                        const std::vector<uint8_t>& got) {
    std::vector<const std::byte*> bytes;
    for (const Data& data : in) bytes.push_back(data.bytes.data());
    PointOracle oracle(program, bytes);
    const int out = outputs(program)[0];
    const Tensor& tensor = program.tensors[static_cast<size_t>(out)];
    std::vector<int64_t> all(static_cast<size_t>(elements(tensor)));
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
    const std::vector<PointOracle::Value> values = oracle.values(out, all);
    for (size_t i = 0; i < all.size(); ++i) {
      const double value = load_element(
          tensor.type, reinterpret_cast<const std::byte*>(got.data()), static_cast<int64_t>(i));
      if (value == values[i].value || std::isinf(values[i].error)) continue;
      ASSERT_LE(std::fabs(value - values[i].value), values[i].error)
          << tensor.name << "[" << i << "] is " << value << ", should be " << values[i].value;
    }
  }

  void check(const std::string& target, const std::string& text) {
    const Program program = parsed(text);
    const Nest start = make_nest(std::make_shared<const Program>(program),
                                 std::make_shared<const Target>(*find_target(target)), 1);
    std::vector<Refusal> refusals;
    const std::vector<Sketch> space = make_space(start, &refusals);
    SCOPED_TRACE(target + "\n" + text);
    if (space[0].last_resort) {
      FAIL() << (refusals.empty() ? "" : refusals[0].why) << " " << lower(start).status();
    }
    ++drawn_;
    const absl::StatusOr<Sample> sample =
        lw::sample(start, space[rng_.below(space.size())], rng_);
    if (!sample.ok()) return;
    ++feasible_;
    SCOPED_TRACE(to_text(sample->trace));
    ASSERT_TRUE(verify(sample->nest).ok()) << verify(sample->nest);
    const absl::StatusOr<Kernel> kernel = lower(sample->nest);
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    ASSERT_TRUE(verify(*kernel).ok()) << verify(*kernel) << print(*kernel);
    const absl::StatusOr<Artifact> artifact =
        (*find_backend("npu"))->build(*kernel, *start.target);
    ASSERT_TRUE(artifact.ok()) << artifact.status() << "\n" << print(*kernel);
    run(program, *kernel, *artifact);
  }

  void run(const Program& program, const Kernel& kernel, const Artifact& artifact) {
    const absl::StatusOr<npu::Module> module = npu::read_module(artifact.bytes);
    ASSERT_TRUE(module.ok()) << module.status();
    std::vector<Data> in;
    std::vector<std::vector<uint8_t>> memory;
    for (const int t : inputs(program)) {
      in.push_back(input(program, t, rng_.next()));
      const uint8_t* const begin = reinterpret_cast<const uint8_t*>(in.back().bytes.data());
      memory.emplace_back(begin, begin + in.back().bytes.size());
    }
    memory.emplace_back(static_cast<size_t>(bytes(program.tensors[outputs(program)[0]])), 0x5a);
    std::vector<uint8_t> workspace(module->workspace.bytes, 0x5a);
    std::vector<npu::Buffer> dram;
    for (size_t a = 0; a < memory.size(); ++a) {
      dram.push_back(
          {module->arguments[a].range.address, memory[a], module->arguments[a].written});
    }
    if (!workspace.empty()) dram.push_back({module->workspace.address, workspace, true});
    absl::StatusOr<npu::Memory> machine = npu::make_memory(module->config, dram);
    ASSERT_TRUE(machine.ok()) << machine.status();
    const absl::StatusOr<npu::FunctionReport> report =
        npu::execute(module->config, module->program, &*machine);
    ASSERT_TRUE(report.ok()) << report.status();
    ASSERT_EQ(report->status, npu::FunctionStatus::kOk)
        << (report->errors.empty() ? "" : report->errors[0]) << "\n" << print(kernel);
    expect_reference(program, in, memory.back());
  }

  // Any of strides, dilations and paddings, of many channels or few; channels last, or first.
  std::string window(std::string text) {
    const auto up_to = [&](int64_t most) { return 1 + static_cast<int64_t>(rng_.below(most)); };
    const auto number = [](int64_t value) { return std::to_string(value); };
    const bool scaled = text.find("b[c]") != text.npos;  // along vectors alone
    const bool first = rng_.below(5) == 0 && !scaled;
    const std::string c = number(up_to(rng_.below(2) ? 8 : 90)), n = number(up_to(2));
    std::string extents[2], out[2], taps[2], at[2];
    const char* const axes[2][2] = {{"y", "r"}, {"x", "s"}};
    for (int d = 0; d < 2; ++d) {
      const int64_t points = up_to(12), window = up_to(4), stride = up_to(3), dilation = up_to(2);
      const int64_t before = static_cast<int64_t>(rng_.below(window + 1));
      const int64_t all = (points - 1) * stride + (window - 1) * dilation + 1;
      const int64_t behind = static_cast<int64_t>(rng_.below(window + 1));
      extents[d] = number(std::max<int64_t>(1, all - before - behind));
      out[d] = std::string(axes[d][0]) + ": " + number(points);
      taps[d] = number(window);
      at[d] = std::string(axes[d][0]) + " * " + number(stride) + " + " + axes[d][1] + " * " +
              number(dilation) + " - " + number(before);
    }
    const auto order = [&](const std::string& a, const std::string& b, const std::string& of_c) {
      return first ? of_c + ", " + a + ", " + b : a + ", " + b + ", " + of_c;
    };
    const std::pair<std::string, std::string> words[] = {
        {"[I]", "[" + n + ", " + order(extents[0], extents[1], c) + "]"},
        {"[O]", "[n: " + n + ", " + order(out[0], out[1], "c: " + c) + "]"},
        {"[R]", "[r: " + taps[0] + ", s: " + taps[1] + "]"},
        {"[P]", "[n, " + order(at[0], at[1], "c") + "]"},
        {"[W]", "[" + order(taps[0], taps[1], c) + "]"},
        {"[w]", "[" + order("r", "s", "c") + "]"},
        {"[n, y, x, c]", "[n, " + order("y", "x", "c") + "]"},
        {"[C]", "[" + c + "]"}};
    for (const auto& [from, to] : words) {
      for (size_t i = 0; (i = text.find(from, i)) != text.npos; i += to.size()) {
        text.replace(i, from.size(), to);
      }
    }
    return text;
  }

  void check_windows(int64_t draws) {
    for (int64_t d = 0; d < draws; ++d) {
      const char* const text = kWindows[static_cast<size_t>(d) % std::size(kWindows)];
      check(kVectorTargets[rng_.below(3)], window(text));
    }
    EXPECT_GE(feasible_ * 100, drawn_ * 95);
  }

  // `draws` of random targets and extents, the programs in turn.
  template <size_t count>
  void check_all(const char* const (&programs)[count], int64_t draws) {
    for (int64_t d = 0; d < draws * static_cast<int64_t>(count); ++d) {
      std::string text = programs[static_cast<size_t>(d) % count];
      text = replaced(text, "K", 1 + static_cast<int64_t>(rng_.below(40)));
      for (const char* const name : {"M", "N"}) text = replaced(text, name, extent());
      text = replaced(text, "C", 2 + static_cast<int64_t>(rng_.below(rng_.below(2) ? 20 : 200)));
      check(kVectorTargets[rng_.below(3)], text);
    }
    EXPECT_GE(feasible_ * 100, drawn_ * 95);
  }
};

TEST_F(NpuVector, Maps) { check_all(kMaps, setting("LW_DRAWS", 8)); }
TEST_F(NpuVector, ComposesFunctionsOfAllMagnitudes) {
  magnitudes_ = true;
  for (const char* const function : {"tanh", "erf"}) {
    check("npu_big128", std::string("  in A: f32[40000]\n  out Y[i: 40000] = ") + function +
                            "(A[i])\n");
  }
  EXPECT_EQ(feasible_, 2);
}
TEST_F(NpuVector, Chooses) { check_all(kChosen, setting("LW_DRAWS", 8)); }
TEST_F(NpuVector, Reductions) { check_all(kReductions, setting("LW_DRAWS", 8)); }
TEST_F(NpuVector, PadsWindows) { check_windows(setting("LW_DRAWS", 8) * 12); }
TEST_F(NpuVector, PadsRows) { check_all(kPadded, setting("LW_DRAWS", 8)); }
TEST_F(NpuVector, RequantisesBitForBit) { check_all(kRequantised, setting("LW_DRAWS", 12)); }
TEST_F(NpuVector, FinishesProducts) { check_all(kFinished, setting("LW_DRAWS", 16)); }
TEST_F(NpuVector, InlinesReductions) { check_all(kRows, setting("LW_DRAWS", 8)); }
TEST_F(NpuVector, Stages) { check_all(kStages, setting("LW_DRAWS", 8)); }

}  // namespace
}  // namespace lw
