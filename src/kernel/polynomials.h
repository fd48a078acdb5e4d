// Of elementary functions in f32, by which all back-ends compute them: minimax fits (Remez
// exchange on the reduced range), coefficients from the highest power down. Their errors: src/build/llvm_math.cc.
#pragma once

namespace lw {

// (e^r - 1 - r) / r^2 for |r| <= ln(2) / 2.
inline constexpr double kExp32[] = {0.00138144672, 0.00836878084, 0.0416683927, 0.166665196, 0.49999994};
// erf(x) / x in u = 2 x^2 / 15.4 - 1, for x^2 <= 15.4, where erf is 1 in f32.
inline constexpr double kErf32[] = {
    0.000363094034, -0.000946771412, 0.000712341804, -0.00109402405, 0.00419165613, -0.00819904171,
    0.0124715576, -0.019777311, 0.0306728091, -0.0437007695, 0.0582875907, -0.0740385205,
    0.0906049907, -0.109105043, 0.133953705, -0.179916307, 0.360343635};
// ln 2 in two parts, the first short enough that its product with an exponent is exact.
inline constexpr double kLn2High32 = 0.693359375, kLn2Low32 = -0.000212194442;

}  // namespace lw
