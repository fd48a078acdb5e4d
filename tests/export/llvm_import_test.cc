// Kernels in MLIR's LLVM dialect: what `show --stage llvm` prints of every operator of the library, by
// `mlir-translate-19 --import-llvm`. docs/mlir.md says which replacements come before, and what MLIR
// 19 does not know all the same. LW_SEED says which schedules are drawn.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "schedules/targets/target.h"
#include "src/base/message.h"
#include "src/base/rng.h"
#include "src/build/build.h"
#include "src/expr/language/text.h"
#include "tests/support/files.h"
#include "tests/support/program.h"
#include "tests/support/scheduled_kernels.h"

namespace lw {
namespace {

namespace fs = std::filesystem;

constexpr int kDraws = 20;

// Instructions of machines for which MLIR's importer has no operation, and a cast that LLVM names by
// its types.
constexpr const char* kUnknown[] = {"llvm.x86.", "llvm.fptoui.sat", "llvm.fptosi.sat",
                                    "llvm.aarch64."};

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

TEST(LlvmImport, TakesKernelsOfTheLibrary) {
  if (std::system("mlir-translate-19 --version > /dev/null 2>&1") != 0)
    GTEST_SKIP() << "no mlir-translate-19 is here";
  const fs::path file = fs::temp_directory_path() / concat("loopwright_import_", getpid());
  Rng rng(static_cast<uint64_t>(setting("LW_SEED", 7)));
  std::map<std::string, int> unknown;
  int imported = 0, kernels = 0;
  for (const char* machine : {"x86_avx2", "x86_avx512_vnni", "aarch64_neon"}) {
    const Target target = *find_target(machine);
    const Backend& backend = **find_backend(target.architecture);
    for (const OpDefinition& op : builtin_ops()) {
      const absl::StatusOr<Program> program = load_workload({op.name});
      ASSERT_TRUE(program.ok()) << program.status();
      const Nest start = make_nest(std::make_shared<const Program>(*program),
                                   std::make_shared<const Target>(target), /*threads=*/1);
      const std::optional<Scheduled> drawn = draw_kernel(start, make_space(start), rng, kDraws);
      if (!drawn.has_value()) continue;
      absl::StatusOr<std::string> text = backend.text(drawn->kernel, target, "llvm");
      ASSERT_TRUE(text.ok()) << text.status();
      ++kernels;
      replace_all(*text, "call void asm sideeffect \"\", \"~{memory}\"()",
                  "fence syncscope(\"singlethread\") acq_rel");
      replace_all(*text, "call void @llvm.x86.sse.sfence()", "fence seq_cst");
      std::ofstream(file) << *text;
      const std::string command = concat("mlir-translate-19 --import-llvm ", file.string(),
                                         " -o ", file.string(), ".mlir 2> ", file.string(), ".log");
      if (std::system(command.c_str()) == 0) {
        ++imported;
        continue;
      }
      const std::string log = slurp(file.string() + ".log");
      const char* reason = nullptr;
      for (const char* name : kUnknown) {
        if (log.find(concat("unhandled intrinsic")) != std::string::npos &&
            log.find(concat("@", name)) != std::string::npos)
          reason = name;
      }
      EXPECT_NE(reason, nullptr) << op.name << " on " << machine << "\n" << log.substr(0, 2000);
      if (reason != nullptr) ++unknown[reason];
    }
  }
  for (const char* ending : {"", ".mlir", ".log"}) fs::remove(file.string() + ending);
  std::printf("%d of %d kernels are imported\n", imported, kernels);
  for (const auto& [name, count] : unknown)
    std::printf("%d are not, for %s*\n", count, name.c_str());
  EXPECT_GT(imported, kernels * 3 / 4);
}

}  // namespace
}  // namespace lw
