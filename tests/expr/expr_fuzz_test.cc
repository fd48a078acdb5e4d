// Deterministic mutations of real programs, and the inputs that break naive parsers: no crash, no
// hang, and whatever parses prints back to itself (the checks are the fuzz target's).
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "fuzz/parser_fuzz.cc"
#include "src/base/rng.h"

namespace lw {

const std::vector<std::pair<const char*, const char*>>& builtin_op_texts();

namespace {

void feed(const std::string& text) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(text.data()), text.size());
}

std::vector<std::string> seeds() {
  std::vector<std::string> texts;
  for (const auto& [file, text] : builtin_op_texts()) {
    // One op each: smaller seeds make mutations that matter.
    std::string all = text;
    for (size_t at = all.find("op "); at != std::string::npos;) {
      const size_t next = all.find("\n}", at);
      texts.push_back(all.substr(at, next == std::string::npos ? next : next + 3 - at));
      at = next == std::string::npos ? next : all.find("\nop ", next);
      if (at != std::string::npos) ++at;
    }
  }
  std::ifstream file(std::string(LW_SOURCE_DIR) + "/tests/expr/errors.txt");
  std::stringstream errors;
  errors << file.rdbuf();
  for (size_t at = 0; (at = errors.str().find("### ", at)) != std::string::npos; ++at) {
    texts.push_back(errors.str().substr(at, errors.str().find("### ", at + 4) - at));
    texts.back().erase(0, texts.back().find('\n') + 1);
  }
  return texts;
}

std::string mutate(const std::vector<std::string>& all, Rng* rng) {
  constexpr const char* kPieces[] = {"(",
                                     ")",
                                     "[",
                                     "]",
                                     "{",
                                     "}",
                                     ",",
                                     ":",
                                     "=",
                                     "+",
                                     "-",
                                     "*",
                                     "/",
                                     "%",
                                     "<",
                                     ">=",
                                     "==",
                                     "&&",
                                     "||",
                                     "!",
                                     "\n",
                                     "op ",
                                     "in ",
                                     "out ",
                                     "let ",
                                     " const",
                                     "sum[k: 4](",
                                     "max[i: 2](",
                                     "where(",
                                     "pad(",
                                     "cast(i8, ",
                                     "clamp(",
                                     "0",
                                     "1",
                                     "-1",
                                     "3",
                                     "1e-5",
                                     "inf",
                                     "true",
                                     "9223372036854775807",
                                     "4611686018427387904",
                                     "1e308",
                                     "f16",
                                     "bool",
                                     "u8",
                                     "i64",
                                     "i",
                                     "j",
                                     "k",
                                     "N",
                                     "X",
                                     "#",
                                     "\x80\xff",
                                     "\t",
                                     "X[i]",
                                     "X[X[i]]",
                                     "i % 2 == 0"};
  std::string text = all[static_cast<size_t>(rng->below(static_cast<int64_t>(all.size())))];
  const auto place = [&] {
    return static_cast<size_t>(rng->below(static_cast<int64_t>(text.size()) + 1));
  };
  for (int64_t edits = 1 + rng->below(4); edits > 0; --edits) {
    const size_t at = place(), length = static_cast<size_t>(rng->below(12));
    switch (rng->below(6)) {
      case 0: text.erase(at, length); break;
      case 1: text.insert(at, kPieces[rng->below(std::size(kPieces))]); break;
      case 2: text.insert(at, text.substr(place(), 3 * length)); break;
      case 3:
        text.replace(at, std::min(length / 4, text.size() - at),
                     kPieces[rng->below(std::size(kPieces))]);
        break;
      case 4: if (at < text.size()) text[at] = static_cast<char>(rng->below(256)); break;
      default: {
        const std::string& other =
            all[static_cast<size_t>(rng->below(static_cast<int64_t>(all.size())))];
        text.insert(
            at, other.substr(static_cast<size_t>(rng->below(static_cast<int64_t>(other.size()))),
                             4 * length));
      }
    }
  }
  return text;
}

TEST(Fuzz, MutatedProgramsNeitherCrashNorHang) {
  const std::vector<std::string> all = seeds();
  ASSERT_GT(all.size(), 100u);
  for (const std::string& text : all) feed(text);
  Rng rng(1);
  for (int i = 0; i < 6000; ++i) {
    const std::string text = mutate(all, &rng);
    SCOPED_TRACE(text);
    feed(text);
  }
}

std::string repeat(const std::string& piece, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += piece;
  return text;
}

TEST(Fuzz, DeepAndWideInputsAreRefusedOrTaken) {
  const std::string head = "op f() {\nin X: f32[4]\nout Y[i: 4] = ";
  for (int times : {10, 100, 299, 1000, 100000}) {
    feed(head + repeat("(", times) + "X[i]" + repeat(")", times) + "\n}");
    feed(head + repeat("(", times));
    feed(head + repeat("-", times) + "X[i]\n}");
    feed(head + repeat("!", times));
    feed(head + "X[i]" + repeat(" + X[i]", times) + "\n}");
    feed(head + "X[i" + repeat(" + i", times) + "]\n}");
    feed(head + "X[" + repeat("(i / 2 + ", times) + "0" + repeat(")", times) + "]\n}");
    feed(head + repeat("where(i > 0, X[i - 1], ", times) + "X[i]" + repeat(")", times) + "\n}");
    feed(head + repeat("exp(", times) + "X[i]" + repeat(")", times) + "\n}");
    feed(head + repeat("clamp(", times) + "X[i]" + repeat(", 0, 1)", times) + "\n}");
    feed(head + "X[" + repeat("0, ", times) + "0]\n}");
    feed("op f(" + repeat("A = 1, ", times) + ") {\n}");
    feed(repeat("op f() {\n", times));
    feed(repeat("}\n", times));
    feed(repeat("#", times));
    feed(std::string(static_cast<size_t>(times), '\xff'));
    feed("op f() {\nin X: f32[4]\n" + repeat("  in X: f32[4] const\n", times) +
         "out Y[i: 4] = X[i]\n}");
    feed("op f() {\n" + repeat("let a = b\n", times) + "}");
  }
  std::string deep = "X[i]";
  for (int i = 0; i < 200; ++i) deep = "sum[k" + std::to_string(i) + ": 2](" + deep + ")";
  feed(head + deep + "\n}");
  feed(std::string(size_t{1} << 21, 'x'));
}

TEST(Fuzz, LongChainsOfTensorsAreTaken) {
  std::string text = "op f() {\nin T0: f32[4]\n";
  for (int i = 1; i < 3000; ++i) {
    const std::string before = "T" + std::to_string(i - 1) + "[i]";
    text += (i == 2999 ? "out T" : "T") + std::to_string(i) + "[i: 4] = " + before + " + " +
            before + "\n";
  }
  feed(text + "}");
}

}  // namespace
}  // namespace lw
