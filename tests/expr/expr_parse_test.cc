// Diagnostics: every mistake is reported where it is, and all of a file's in one run. The cases are
// tests/expr/errors.txt: programs whose comments name the errors expected on their lines.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "src/expr/expr.h"
#include "src/expr/language/text.h"

namespace lw {
namespace {

std::string error_of(std::string_view text) {
  absl::StatusOr<Module> module = parse_module(text, "t.te");
  return module.ok() ? "" : std::string(module.status().message());
}

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// Each case starts with "### name". A line that ends in "#! text" must have an error with that
// text;
// "#? text" is a hint that must appear after it. No other line may have one.
void check_case(const std::string& name, const std::string& text) {
  SCOPED_TRACE(name);
  const std::string errors = error_of(text);
  std::istringstream lines(text);
  std::string line;
  size_t expected = 0;
  for (int number = 1; std::getline(lines, line); ++number) {
    const std::string place = "t.te:" + std::to_string(number) + ":";
    size_t mark = line.find("#! ");
    if (mark == std::string::npos) {
      EXPECT_EQ(errors.find(place), std::string::npos) << "line " << number << "\n" << errors;
      continue;
    }
    const size_t hint = line.find(" #? ", mark);
    const std::string want =
        line.substr(mark + 3, hint == std::string::npos ? hint : hint - mark - 3);
    const size_t at = errors.find(place);
    EXPECT_NE(at, std::string::npos) << "no error on line " << number << ": " << line << "\n"
                                     << errors;
    if (at == std::string::npos) continue;
    EXPECT_NE(errors.find(want, at), std::string::npos) << want << "\n" << errors;
    if (hint != std::string::npos) {
      EXPECT_NE(errors.find("hint: " + line.substr(hint + 4), at), std::string::npos)
          << line << "\n" << errors;
    }
    ++expected;
  }
  size_t found = 0;
  for (size_t at = errors.find(": error: "); at != std::string::npos;
       at = errors.find(": error: ", at + 1)) {
    ++found;
  }
  EXPECT_EQ(found, expected) << errors;
}

TEST(Parse, ReportsEveryErrorOfEveryCase) {
  const std::string all = read_file(std::string(LW_SOURCE_DIR) + "/tests/expr/errors.txt");
  ASSERT_FALSE(all.empty());
  int cases = 0;
  for (size_t at = all.find("### "); at != std::string::npos; ++cases) {
    const size_t line_end = all.find('\n', at), next = all.find("### ", line_end);
    check_case(all.substr(at + 4, line_end - at - 4),
               all.substr(line_end + 1, next == std::string::npos ? next : next - line_end - 1));
    at = next;
  }
  EXPECT_GE(cases, 60);
}

TEST(Parse, ShowsTheLineACaretAndAHint) {
  EXPECT_EQ(error_of("op f(Mod = 4) {\n  in X: f32[Mod]\n\tout Y[i: Mod] = X[j] + Mid\n}\n"),
            "t.te:3:20: error: there is no axis, parameter or let 'j'\n"
            "\tout Y[i: Mod] = X[j] + Mid\n"
            "\t                  ^\n"
            "t.te:3:25: error: there is no axis, parameter or let 'Mid'\n"
            "\tout Y[i: Mod] = X[j] + Mid\n"
            "\t                       ^\n"
            "hint: did you mean 'Mod'?\n");
}

TEST(Parse, OutOfBoundsNamesAxisIntervalAndLine) {
  const std::string error = error_of(
      "op f(N = 8) {\n  in X: f32[N]\n  out Y[i: N] = X[i] + X[i + 1]\n}\n");
  EXPECT_NE(
      error.find("t.te:3:26: error: index 1 of 'X', i + 1, ranges over [1, 8] but the extent is 8 "
                 "(i in [0, 7])"),
      std::string::npos)
      << error;
}

TEST(Parse, ReportsAllOpsOfAFile) {
  const std::string error = error_of(
      "op a() {\n  in X: f32[4]\n  out Y[i: 4] = X[k]\n}\n"
      "op b() {\n  in X: f33[4]\n  out Y[i: 4] = X[i]\n}\n"
      "op c() {\n  in X: f32[4]\n  out Y[i: 4] = X[i] + + \n}\n");
  EXPECT_NE(error.find("t.te:3:"), std::string::npos) << error;
  EXPECT_NE(error.find("t.te:6:"), std::string::npos) << error;
  EXPECT_NE(error.find("t.te:11:"), std::string::npos) << error;
}

TEST(Parse, ManyErrorsAreCounted) {
  std::string text = "op f() {\n  in X: f32[4]\n";
  for (int i = 0; i < 80; ++i)
    text += "  Y" + std::to_string(i) + "[i: 4] = X[k" + std::to_string(i) + "]\n";
  const std::string error = error_of(text + "  out Z[i: 4] = X[i]\n}\n");
  EXPECT_NE(error.find("and 30 more errors"), std::string::npos) << error;
}

TEST(Parse, CommentsAboveAnOpAreItsDocumentation) {
  absl::StatusOr<Module> module = parse_module(
      "# not this\n\n# First.\n#  Second.\nop f(A = 2, e = -1e-5, T = bf16, b = true) {\n"
      "  in X: T[A]\n  out Y[i: A] = X[i]\n}\n", "t.te");
  ASSERT_TRUE(module.ok()) << module.status();
  const OpDefinition& op = module->ops[0];
  EXPECT_EQ(op.doc, "First.\nSecond.");
  ASSERT_EQ(op.parameters.size(), 4u);
  EXPECT_EQ(op.parameters[1].name, "e");
  EXPECT_EQ(op.parameters[1].default_text, "-1e-5");
  EXPECT_EQ(op.parameters[2].default_text, "bf16");
}

TEST(Parse, LinesGoOnInsideBracketsAndAfterOperators) {
  EXPECT_EQ(error_of("op f(N = 4,\n     M = 5) {\n  in X: f32[N,\n            M]\n"
                     "  out Y[i: N,\n        j: M] =\n    X[i,\n      j] +\n    1 -\n    2\n}"),
            "");
}

TEST(Instantiate, OverridesAreChecked) {
  absl::StatusOr<Module> module = parse_module(
      "op f(Mod = 4, eps = 1e-5, T = f32) {\n  in X: T[Mod]\n"
      "  out Y[i: Mod] = X[i]\n}\n", "t.te");
  ASSERT_TRUE(module.ok()) << module.status();
  const OpDefinition& op = module->ops[0];
  auto error = [&](std::map<std::string, std::string> overrides) {
    absl::StatusOr<Program> program = instantiate(op, overrides);
    return program.ok() ? "" : std::string(program.status().message());
  };
  EXPECT_EQ(error({{"Mod", "7"}, {"eps", "2"}, {"T", "bf16"}}), "");
  EXPECT_EQ(error({{"Mid", "7"}}), "op f has no parameter 'Mid'; did you mean 'Mod'? "
                                   "(it has: Mod=4 eps=1e-5 T=f32)");
  EXPECT_EQ(error({{"Mod", "7.5"}}), "parameter Mod is an integer, not '7.5'");
  EXPECT_EQ(error({{"T", "7"}}), "parameter T is a type, not '7'");
  EXPECT_EQ(error({{"eps", "x"}}), "parameter eps is a number, not 'x'");
  EXPECT_NE(error({{"Mod", "0"}}).find("the extent of dimension 1 of 'X' is 0"), std::string::npos);
  EXPECT_NE(error({{"Mod", "-3"}}).find("is -3; it must be at least 1"), std::string::npos);
  EXPECT_NE(error({{"Mod", "9000000000000"}}).find("'X' would have 9e+12 elements"),
            std::string::npos)
      << error({{"Mod", "9000000000000"}});
  const std::vector<std::string> names = {"X"}, wrong = {"x"};
  EXPECT_TRUE(instantiate(op, {}, &names)->tensors[0].is_const);
  EXPECT_EQ(instantiate(op, {}, &wrong).status().message(),
            "op f has no input 'x' to be const");
}

}  // namespace
}  // namespace lw
