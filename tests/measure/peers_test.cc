// Programs are recognised by what they compute, and every peer that answers computes the same.
#include <cstdlib>

#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "src/base/message.h"
#include "src/expr/language/text.h"
#include "src/expr/reference/interpret.h"
#include "src/peers/interleave.h"
#include "src/peers/loader.h"
#include "src/peers/match/match.h"
#include "tests/measure/peer_inputs.h"

namespace lw {
namespace {

Program workload(const std::string& words) {
  absl::StatusOr<Program> program = load_workload(absl::StrSplit(words, ' '));
  EXPECT_TRUE(program.ok()) << program.status();
  return *std::move(program);
}

Program parsed(const std::string& text) {
  absl::StatusOr<Module> module = parse_module(text, "test.te");
  EXPECT_TRUE(module.ok()) << module.status();
  absl::StatusOr<Program> program = instantiate(module->ops[0], {});
  EXPECT_TRUE(program.ok()) << program.status();
  return *std::move(program);
}

std::string recognised(const Program& program) { return describe(match_peer_case(program)); }

TEST(Match, NamesLibraryOperators) {
  EXPECT_EQ(recognised(workload("matmul M=3 N=4 K=5")), "gemm 3 x 4 x 5");
  EXPECT_EQ(recognised(workload("dense_relu M=3 N=4 K=5")), "gemm 3 x 4 x 5, bias + relu");
  EXPECT_EQ(recognised(workload("dense_gelu M=3 N=4 K=5")), "gemm 3 x 4 x 5, bias + gelu");
  EXPECT_EQ(recognised(workload("batch_matmul B=2 M=3 N=4 K=5")), "gemm 2 of 3 x 4 x 5");
  EXPECT_EQ(recognised(workload("dense_u8i8 M=3 N=4 K=5")), "gemm 3 x 4 x 5, u8 by i8");
  EXPECT_EQ(recognised(workload("dense M=3 N=4 K=5 T=bf16")), "gemm 3 x 4 x 5, bf16");
  EXPECT_EQ(recognised(workload("softmax M=3 N=40")), "softmax 3 x 40");
}

TEST(Match, AttentionInEitherForm) {
  EXPECT_EQ(recognised(workload("attention B=2 H=3 S=9 T=17 D=8")),
            "attention 2 x 3 of 9 x 17 x 8 -> 8");
  const std::string head = "op f() {\n in Q: f32[6, 4]\n in K: f32[5, 4]\n in V: f32[5, 7]\n";
  const auto weights = [](const char* rows) {
    return concat(" P[i: 6, j: 5] = sum[d: 4](Q[i, d] * K[j, d])\n",
                  " E[i: 6, j: 5] = exp(P[i, j] - max[k: 5](P[i, k]))\n",
                  " W[i: 6, j: 5] = E[i, j] / sum[k: 5](E[", rows, "])\n",
                  " out Y[i: 6, e: 7] = sum[j: 5](W[i, j] * V[j, e])\n}\n");
  };
  EXPECT_EQ(recognised(parsed(head + weights("i, k"))), "attention 6 x 5 x 4 -> 7");
  EXPECT_EQ(recognised(parsed(head + weights("0, k"))), "nothing a library knows");
  EXPECT_EQ(recognised(workload("causal_attention H=2 S=9 D=8")), "nothing a library knows");
}

TEST(Match, ConvolutionsOfAllKinds) {
  EXPECT_EQ(recognised(workload("conv2d N=2 H=8 W=7 CI=4 CO=6")),
            "convolution of 2 x 8 x 7 x 1 x (4 -> 6), kernel 3 x 3");
  EXPECT_EQ(recognised(workload("conv2d_bn_relu N=2 H=8 W=7 CI=4 CO=6")),
            "convolution of 2 x 8 x 7 x 1 x (4 -> 6), kernel 3 x 3, scale + shift + relu");
  EXPECT_EQ(recognised(workload("conv2d_grouped H=8 W=7 CI=8 CO=12 groups=4")),
            "convolution of 1 x 8 x 7 x 4 x (2 -> 3), kernel 3 x 3");
  EXPECT_EQ(recognised(workload("conv2d_depthwise H=8 W=7 C=5")),
            "convolution of 1 x 8 x 7 x 5 x (1 -> 1), kernel 3 x 3");
  EXPECT_EQ(recognised(workload("conv2d H=8 W=7 CI=4 CO=6 R=1 S=1 pad=0")),
            "convolution of 1 x 8 x 7 x 1 x (4 -> 6), kernel 1 x 1");
  EXPECT_EQ(recognised(workload("conv2d_transpose N=2 H=8 W=7 CI=4 CO=6 R=3 stride=2")),
            "transposed convolution of 2 x 8 x 7 x 1 x (4 -> 6), kernel 3 x 3");
}

TEST(Match, TranspositionsAreStrides) {
  EXPECT_EQ(recognised(parsed("op f(M = 6, N = 7, K = 5) {\n in A: f32[K, M]\n in B: f32[N, K]\n"
                              " out C[i: M, j: N] = sum[k: K](B[j, k] * A[k, i])\n}\n")),
            "gemm 6 x 7 x 5");
  EXPECT_EQ(recognised(parsed("op f(M = 6, N = 7) {\n in A: f32[M, N]\n"
                              " out C[j: N, i: M] = A[i, j]\n}\n")),
            "transpose 6 x 7");
}

TEST(Match, FormsOfTheSameFunction) {
  EXPECT_EQ(recognised(parsed("op f(M = 6, N = 7) {\n in X: f32[M, N]\n"
                              " out Y[i: M] = sqrt(sum[j: N](X[i, j] * X[i, j]))\n}\n")),
            "2-norm of 6 x 7 (reduced)");
  EXPECT_EQ(recognised(parsed("op f(M = 6, N = 7) {\n in X: f32[M, N]\n"
                              " out Y[j: N] = sum[i: M](X[i, j]) / 6\n}\n")),
            "mean of 6 (reduced) x 7");
  EXPECT_EQ(recognised(parsed("op f(M = 6, N = 7) {\n in X: f32[M, N]\n in g: f32[N]\n"
                              " S[i: M] = sum[j: N](X[i, j] * X[i, j])\n"
                              " out Y[i: M, j: N] = g[j] * X[i, j] / sqrt(S[i] / N + 1e-5)\n}\n")),
            "rms norm 6 x 7");
}

TEST(Match, RefusesWhatNoLibraryHas) {
  const std::string nothing = "nothing a library knows";
  EXPECT_EQ(recognised(parsed("op f(M = 6, N = 7, K = 5) {\n in A: f32[M, K]\n in B: f32[K, N]\n"
                              " out C[i: M, j: N] = min[k: K](A[i, k] + B[k, j])\n}\n")),
            nothing);
  EXPECT_EQ(recognised(parsed("op f(M = 6, N = 7) {\n in X: f32[M, N]\n"
                              " out Y[i: M, j: N] = X[i, j] * X[i, j] + 1\n}\n")),
            nothing);
  EXPECT_EQ(recognised(workload("dense_i8")), nothing);
  EXPECT_EQ(recognised(workload("matmul M=3 N=4 K=5 T=i8")), nothing);
  EXPECT_EQ(recognised(workload("add T=bf16")), nothing);
}

// A host of two speeds, of which each contender met another one more often.
TEST(Interleave, RatiosAreOfOneRound) {
  const std::vector<double> ours = {10, 10, 20, 20, 20}, theirs = {12, 12, 24, 24, 12};
  EXPECT_DOUBLE_EQ(estimate(theirs).median / estimate(ours).median, 0.6);
  EXPECT_DOUBLE_EQ(paired_ratio(theirs, ours).median, 1.2);
}

TEST(Interleave, EachRoundSamplesAllInTurn) {
  std::string calls;
  InterleaveOptions options;
  options.rounds = 4;
  options.budget_s = 1e9;
  options.min_sample_s = options.warm_s = 0;
  options.beside = [&] { calls += '|'; };
  const std::vector<Series> series =
      interleave({{"a", [&] { calls += 'a'; }, {}}, {"b", [&] { calls += 'b'; }, {}}}, options);
  ASSERT_EQ(series.size(), 2u);
  for (const Series& s : series) EXPECT_EQ(s.samples_us.size(), 4u);
  const std::vector<std::string> rounds = absl::StrSplit(calls.substr(calls.find('|') + 1), '|');
  ASSERT_EQ(rounds.size(), 4u);
  for (const std::string& round : rounds) {
    const size_t turn = round.find('b');
    ASSERT_NE(turn, std::string::npos);
    EXPECT_EQ(round.substr(0, turn), std::string(turn, 'a'));
    EXPECT_EQ(round.substr(turn), std::string(round.size() - turn, 'b'));
  }
}

class PeersAgree : public testing::TestWithParam<const char*> {};

TEST_P(PeersAgree, WithTheReference) {
  setenv("LOOPWRIGHT_PEERS", LW_BINARY_DIR "/peers", 1);
  if (load_peers().peers.empty()) GTEST_SKIP() << "[SKIP] no peer is installed";
  const Program program = workload(GetParam());
  std::vector<Data> in;
  for (int t : inputs(program)) in.push_back(random_input(program, t, 7 + t, false));
  keep_pairs_in_i16(program, in);
  const absl::StatusOr<std::vector<Data>> expected = interpret(program, in);
  ASSERT_TRUE(expected.ok()) << expected.status();
  std::vector<Data> out = *expected;
  std::vector<void*> arguments;
  for (Data& d : in) arguments.push_back(d.bytes.data());
  for (Data& d : out) arguments.push_back(d.bytes.data());

  for (int threads : {1, 2}) {
    for (const PeerContender& peer :
         prepare_peers(match_peer_case(program), arguments.data(), threads, {})) {
      std::fill(out[0].bytes.begin(), out[0].bytes.end(), std::byte{0x7f});
      peer.select();
      peer.run();
      if (!is_float(program.tensors[outputs(program)[0]].type)) {
        EXPECT_EQ(out[0].bytes, (*expected)[0].bytes) << peer.name;
        continue;
      }
      const auto* got = reinterpret_cast<const float*>(out[0].bytes.data());
      const auto* want = reinterpret_cast<const float*>((*expected)[0].bytes.data());
      for (size_t i = 0; i < out[0].bytes.size() / sizeof(float); ++i)
        ASSERT_NEAR(got[i], want[i], 1e-4 * (1 + std::abs(want[i])))
            << peer.name << " " << peer.mode << " " << peer.implementation << " element " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Workloads, PeersAgree,
    testing::Values("matmul M=31 N=17 K=23", "matmul M=1 N=33 K=29", "matmul M=33 N=1 K=29",
                    "dense M=16 N=32 K=48", "dense_u8i8 M=16 N=32 K=48",
                    "matmul_u8i8 M=15 N=33 K=49", "dense M=16 N=32 K=48 T=bf16",
                    "dense_relu M=16 N=32 K=48", "dense_gelu M=16 N=32 K=48",
                    "batch_matmul B=3 M=9 N=10 K=11",
                    "softmax M=5 N=100", "attention B=2 H=3 S=9 T=17 D=8",
                    "attention S=33 T=40 D=16", "conv2d N=2 H=8 W=7 CI=4 CO=6",
                    "conv2d N=1 H=9 W=7 CI=3 CO=5 R=5 S=3 stride=2 pad=2",
                    "conv2d_bn_relu N=2 H=8 W=7 CI=4 CO=6",
                    "conv2d_grouped H=8 W=7 CI=8 CO=12 groups=4",
                    "conv2d_dilated H=12 W=11 CI=4 CO=6", "conv2d_depthwise H=8 W=7 C=5",
                    "conv2d_transpose N=2 H=5 W=4 CI=8 CO=6",
                    "conv2d_transpose H=5 W=4 CI=3 CO=7 R=5 stride=3 pad=2"));

}  // namespace
}  // namespace lw
