// Groups of items: their text, what the verifier asks of them, and the interpreter.
#include "src/base/parallel_pool.h"
#include "src/kernel/groups.h"
#include "tests/support/build_helpers.h"
#include "tests/lower/group_kernels.h"
#include "tests/support/kernel_text.h"

namespace lw {
namespace {

const char* const kGroupTexts[] = {kGroupGemm, kGroupHalves, kGroupTranspose, kGroupAcross};

// What the kernels compute, by plain loops.
std::vector<float> plainly(const Kernel& kernel, const GroupArguments& arguments) {
  std::vector<float> result(arguments.result().size(), 0);
  if (kernel.name == "gemm") {
    for (int i = 0; i < 8; ++i) {
      for (int j = 0; j < 8; ++j) {
        for (int k = 0; k < 12; ++k) {
          result[8 * i + j] += arguments[0][12 * i + k] * arguments[1][8 * k + j];
        }
      }
    }
  } else if (kernel.name == "halves") {
    for (int i = 0; i < 64; ++i) result[i / 16] += arguments[0][i];
  } else if (kernel.name == "across") {
    for (int i = 0; i < 64; ++i) {
      for (int n = 0; n < 4; ++n) result[i] += arguments[0][i / 16 * 16 + 4 * n + i % 4];
    }
  } else {
    for (int i = 0; i < 64; ++i) result[8 * (i % 8) + i / 8] = arguments[0][i];
  }
  return result;
}

TEST(Groups, TextSaysAll) {
  for (const char* text : kGroupTexts) {
    const Kernel kernel = kernel_of(text);
    EXPECT_EQ(print(kernel), text);
    expect_text_says_all(kernel, kernel.name);
  }
}

TEST(Groups, ItemsAndBarriersCountInTheHash) {
  const std::string text = kGroupTranspose;
  const uint64_t whole = hash(kernel_of(text));
  EXPECT_NE(hash(group_kernel(replaced(text, "items 16", "items 8"))), whole);
  EXPECT_NE(hash(group_kernel(replaced(text, " items 16", ""))), whole);
  EXPECT_NE(hash(group_kernel(without_barriers(text))), whole);
  EXPECT_NE(hash(group_kernel(replaced(text, "v1 = item", "v1 = v0"))), whole);
}

TEST(Groups, TheInterpreterRunsItemsSideBySide) {
  for (const char* text : kGroupTexts) {
    const Kernel kernel = kernel_of(text);
    Artifact artifact;
    artifact.architecture = "interpreter";
    artifact.bytes = text;
    const absl::StatusOr<std::unique_ptr<Loaded>> loaded = load(artifact);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    ParallelPool pool(3);
    for (const bool parallel : {false, true}) {
      const GroupArguments arguments(kernel);
      lw_context context = {nullptr, nullptr, 1, nullptr, nullptr};
      if (parallel) {
        context.parallel_for = ParallelPool::parallel_for;
        context.pool = &pool;
        context.workers = pool.workers();
      }
      EXPECT_EQ((*loaded)->run(&context, arguments.pointers()), 0);
      EXPECT_EQ(arguments.result(), plainly(kernel, arguments)) << kernel.name;
    }
  }
}

TEST(Groups, AnyOrderOfItemsGivesTheSame) {
  for (const char* text : kGroupTexts) {
    const Kernel kernel = kernel_of(text);
    for (const ItemOrder& order : item_orders()) {
      std::vector<float> result;
      EXPECT_EQ(emulated(kernel, order, &result), "");
      EXPECT_EQ(result, plainly(kernel, GroupArguments(kernel)));
    }
  }
}

// Variables, registers and private memory are each item's, across barriers too.
TEST(Groups, ItemsHaveMemoryOfTheirOwn) {
  const Kernel kernel = kernel_of(
      R"(kernel own arguments=1 variables=3 workspace=0 private=64 packed=0 managed=32
buffer Y f32 16 argument 0 written
buffer p f32 2 private 0
buffer t f32 8 managed 0 0
registers f32x1 2
registers i32x1 1
body {
  for v0 < 2 parallel items 8 {
    int v1 = item
    r2 = iota v1 stride 0
    r0 = cast r2
    store p[1] = r0 stride 1
    store t[v1] = r0 stride 1
    barrier
    r0 = load p[1] stride 1
    r1 = load t[-v1 + 7] stride 1
    r1 = mul r1, r0
    store Y[8*v0 + v1] = r1 stride 1
  }
}
)");
  for (const ItemOrder& order : item_orders()) {
    std::vector<float> result;
    EXPECT_EQ(emulated(kernel, order, &result), "");
    for (int i = 0; i < 16; ++i) EXPECT_EQ(result[i], (i % 8) * (7 - i % 8));
  }
}

std::string refusal(const std::string& text) {
  return std::string(verify(group_kernel(text)).message());
}

TEST(Groups, BarriersStandWhereAllItemsArrive) {
  const std::string text = kGroupTranspose;
  struct Case { const char *around, *end, *what; };
  const char* const parts = "items may part";
  const Case cases[] = {
      {"if -v1 + 3 >= 0 {\n", "}\n", parts},
      {"if -v3 + 2 >= 0 {\n", "}\n", parts},                      // through mod
      {"if -v2 + 2 >= 0 {\n", "}\n", parts},                      // and div
      {"if -v0 + 3 >= 0, -v2 + 2 >= 0 {\n", "}\n", parts},
      {"if -v1 + 3 >= 0 {\n} else {\n", "}\n", parts},
      {"int v6 = min v1, 3\nif v6 - 1 >= 0 {\n", "}\n", parts},
      {"int v6 = max v0, v1\nif v6 - 1 >= 0 {\n", "}\n", parts},
      {"int v6 = 2*v1 + v0\nint v7 = v6\nif v7 - 1 >= 0 {\n", "}\n", parts},
      {"r1 = const 1\nint v6 = register r1\nif v6 >= 0 {\n", "}\n", parts},  // from data
      {"if -v1 + 3 >= 0 {\nfor v6 < 2 {\n", "}\n}\n", parts},
      {"for v6 < 2 {\nif -v1 + v6 >= 0 {\n", "}\n}\n", parts},
      {"for v6 < 2 {\n", "}\n", ""},
      {"if v0 - 1 >= 0 {\n", "}\n", ""},
      {"if -v4 + v5 >= 0 {\n} else {\n", "}\n", ""},
      {"for v6 < 2 {\nint v7 = div v6, 2\nif v7 >= 0 {\n", "}\n}\n", ""},
  };
  for (const Case& c : cases) {
    std::string altered = replaced(text, "variables=6", "variables=8");
    altered = replaced(altered, "registers f32x1 1", "registers f32x1 1\nregisters i32x1 1");
    altered = replaced(altered, "barrier\n", std::string(c.around) + "barrier\n" + c.end);
    const std::string found = refusal(altered);
    if (*c.what == 0) EXPECT_EQ(found, "") << altered;
    else EXPECT_NE(found.find(c.what), found.npos) << found << "\n" << altered;
  }
}

TEST(Groups, ItemsOfASubGroupExchangeWhatTheyCan) {
  const std::string text = kGroupAcross, own = "r1 = across sum 4 r0\n";
  struct Case { const char *by, *what; };
  const Case cases[] = {
      {"r1 = across max 8 r0\n", ""},
      {"r1 = across min 1 r0\n", ""},
      {"for v2 < 2 {\nr1 = across sum 4 r0\n}\n", ""},
      {"if -v0 >= 0 {\nr1 = across sum 4 r0\n} else {\nr1 = across max 4 r0\n}\n", ""},
      {"r1 = across sum 3 r0\n", "8 items make no sub-groups of 3"},
      {"r1 = across sum 16 r0\n", "8 items make no sub-groups of 16"},
      {"r1 = across sum 0 r0\n", "a sub-group needs items"},
      {"r1 = across prod 4 r0\n", "items exchange sums, maxima and minima of 32 and 64 bits"},
      {"r1 = move r0\nif -v1 + 3 >= 0 {\nr1 = across sum 4 r0\n}\n", "items may part"},
      {"r1 = across sum 4 r2\n", "lanes differ"},
  };
  for (const Case& c : cases) {
    std::string altered = replaced(replaced(text, own, c.by), "variables=2", "variables=3");
    altered = replaced(altered, "registers f32x4 2", "registers f32x4 2\nregisters f32x1 1");
    altered = replaced(altered, "    r0 = load", "    r2 = const 1\n    r0 = load");
    const std::string found = refusal(altered);
    if (*c.what == 0) EXPECT_EQ(found, "") << altered;
    else EXPECT_NE(found.find(c.what), found.npos) << found << "\n" << altered;
  }
  const std::string outside = replaced(text, "body {\n", "body {\nr0 = const 1\n" + own);
  EXPECT_NE(refusal(outside).find("sub-groups are of a parallel loop's items"), outside.npos);
  std::string narrow = replaced(replaced(text, "f32x4", "i8x4"), "X f32", "X i8");
  EXPECT_NE(refusal(replaced(narrow, "Y f32", "Y i8")).find("of 32 and 64 bits"), narrow.npos);
}

TEST(Groups, WhatIsAGroupsStandsInOne) {
  const std::string text = kGroupTranspose;
  const auto refused = [&](const char* from, const char* to, const char* what) {
    const std::string found = refusal(replaced(text, from, to));
    EXPECT_NE(found.find(what), found.npos) << found;
  };
  refused("body {\n", "body {\nbarrier\n", "a barrier must stand in a parallel loop");
  refused("body {\n", "body {\nr0 = load t[0] stride 1\n", "is a group's, and no group is here");
  refused("body {\n", "body {\nint v1 = item\n", "no parallel loop has this item");
  refused("items 16", "items 0", "only parallel loops have items");
  refused("managed=128\n", "managed=0,128\n", "reaches outside its scope");
  refused("t f32 20 managed 0", "t f32 20 managed 1", "no such memory");
  refused("items 16", "items 17", "access to X may reach element 71");
  std::string two = replaced(text, "managed=128", "managed=0,128");
  two = replaced(two, "t f32 20 managed 0", "t f32 20 managed 1");
  EXPECT_NE(refusal(two).find("a group has memory 0 alone"), std::string::npos) << refusal(two);
  const std::string block = replaced(text, "barrier\n", "fill t[0] (1) = 0 over 4\n");
  EXPECT_NE(refusal(block).find("must not stand in a parallel loop"), std::string::npos);
  const std::string nested = replaced(replaced(text, "variables=6", "variables=7"), "barrier\n",
                                      "for v6 < 2 parallel items 2 {\n}\n");
  EXPECT_NE(refusal(nested).find("must not nest"), std::string::npos) << refusal(nested);
  // A group of one item has a memory of its own, too.
  EXPECT_EQ(refusal(replaced(text, " items 16", "")), "");
}

}  // namespace
}  // namespace lw
