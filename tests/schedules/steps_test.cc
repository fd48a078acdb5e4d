// Every step before -> after, and every refusal with its reason: tests/steps/NAME.test. A file
// holds
//   === title
//   program text
//   --- trace [threads N] [on TARGET]
//   steps
//   --- nest | infeasible
//   what print(Nest) gives, or the message of replay
// LW_UPDATE=1 rewrites the expectations.
#include "schedules/steps.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "gtest/gtest.h"
#include "src/expr/message.h"
#include "src/expr/text.h"

namespace lw {
namespace {

struct Case {
  std::string title, program, header, trace, kind, expected;
};

std::vector<Case> read_cases(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::vector<Case> cases;
  std::string* section = nullptr;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("=== ")) {
      cases.push_back({line.substr(4), "", "", "", "", ""});
      section = &cases.back().program;
    } else if (line.starts_with("--- trace")) {
      cases.back().header = line.substr(4);
      section = &cases.back().trace;
    } else if (line.starts_with("--- ")) {
      cases.back().kind = line.substr(4);
      section = &cases.back().expected;
    } else if (section != nullptr) {
      *section += line + "\n";
    }
  }
  return cases;
}

// The outcome of a case: kind and text.
std::pair<std::string, std::string> run_case(const Case& c) {
  const absl::StatusOr<Module> module = parse_module(c.program, c.title);
  if (!module.ok()) return {"error", std::string(module.status().message())};
  const absl::StatusOr<Program> program = instantiate(module->ops[0], {});
  const size_t on = c.header.find(" on ");
  const std::string name = on == std::string::npos ? "x86_avx512" : c.header.substr(on + 4);
  const absl::StatusOr<Target> target = find_target(name);
  if (!program.ok() || !target.ok()) return {"error", "no program"};
  const size_t threads = c.header.find("threads ");
  const int count = threads == std::string::npos ? 1 : std::stoi(c.header.substr(threads + 8));
  const Nest start = make_nest(std::make_shared<const Program>(*program),
                               std::make_shared<const Target>(*target), count);
  const absl::StatusOr<Trace> trace = parse_trace(c.trace);
  if (!trace.ok()) return {"error", std::string(trace.status().message())};
  const absl::StatusOr<Nest> nest = replay(start, *trace);
  if (!nest.ok()) {
    EXPECT_EQ(nest.status().code(), absl::StatusCode::kFailedPrecondition);
    return {"infeasible", std::string(nest.status().message()) + "\n"};
  }
  EXPECT_TRUE(verify(*nest).ok()) << c.title << ": " << verify(*nest);
  return {"nest", print(*nest)};
}

TEST(StepsTest, EveryCaseOfTheTextFiles) {
  const bool update = std::getenv("LW_UPDATE") != nullptr;
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(LW_SOURCE_DIR "/tests/steps")) {
    if (entry.path().extension() == ".test") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  for (const auto& path : paths) {
    std::string rewritten;
    for (const Case& c : read_cases(path)) {
      const auto [kind, text] = run_case(c);
      rewritten += concat("=== ", c.title, "\n", c.program, "--- ", c.header, "\n", c.trace, "--- ",
                          kind, "\n", text);
      if (update) continue;
      EXPECT_EQ(kind, c.kind) << path << ": " << c.title << "\n" << text;
      EXPECT_EQ(text, c.expected) << path << ": " << c.title;
    }
    if (update) std::ofstream(path) << rewritten;
  }
}

TEST(StepsTest, EveryStepHasItsFileWithARefusal) {
  for (const StepKind* kind : lw_step_table()) {
    const std::filesystem::path path = concat(LW_SOURCE_DIR "/tests/steps/", kind->name, ".test");
    const std::vector<Case> cases = read_cases(path);
    const auto applies = [&](const char* outcome) {
      return std::any_of(cases.begin(), cases.end(), [&](const Case& c) {
        return c.kind == outcome && c.trace.find(kind->name) != std::string::npos;
      });
    };
    EXPECT_TRUE(applies("nest")) << kind->name;
    EXPECT_TRUE(applies("infeasible")) << kind->name;
  }
}

}  // namespace
}  // namespace lw
