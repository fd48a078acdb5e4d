// Tests as text: what goes in and what must come out, side by side, in files that a reader can
// learn from. A file holds cases:
//   === title
//   text
//   --- header                              a section, as many as its test takes
//   text
// LOOPWRIGHT_UPDATE=1 rewrites what is expected.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "loopwright/program.h"
#include "schedules/steps.h"
#include "schedules/targets/target.h"
#include "src/base/message.h"
#include "src/expr/language/text.h"
#include "tests/support/files.h"

namespace lw {

struct TextSection {
  std::string header;                      // without the dashes
  std::string text;
};

struct TextCase {
  std::string title, program;
  std::vector<TextSection> sections;
};

inline std::vector<TextCase> read_cases(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::vector<TextCase> cases;
  std::string* text = nullptr;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("=== ")) {
      cases.push_back({line.substr(4), "", {}});
      text = &cases.back().program;
    } else if (line.starts_with("--- ") && !cases.empty()) {
      cases.back().sections.push_back({line.substr(4), ""});
      text = &cases.back().sections.back().text;
    } else if (text != nullptr) {
      *text += line + "\n";
    }
  }
  return cases;
}

inline std::string to_text(const TextCase& c) {
  std::string text = concat("=== ", c.title, "\n", c.program);
  for (const TextSection& section : c.sections)
    text += concat("--- ", section.header, "\n", section.text);
  return text;
}

inline std::string message_of(const absl::Status& status) { return std::string(status.message()); }

// The folder's files of that extension, sorted.
inline std::vector<std::filesystem::path> text_files(const std::string& folder,
                                                     const std::string& extension) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == extension) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

// Every case of every .test file in the folder comes out of `run`, which expects nothing, as it
// went in.
inline void expect_cases(const std::string& folder,
                         const std::function<TextCase(const TextCase&)>& run) {
  for (const std::filesystem::path& path : text_files(folder, ".test")) {
    std::string rewritten;
    for (const TextCase& c : read_cases(path)) {
      const std::string text = to_text(run(c));
      rewritten += text;
      if (rewrites_expectations()) continue;
      EXPECT_EQ(text, to_text(c)) << path << ": " << c.title;
    }
    if (rewrites_expectations()) std::ofstream(path) << rewritten;
  }
}

// The value of "NAME VALUE" in a header, else `otherwise`.
inline std::string word_after(const std::string& header, const std::string& name,
                              const std::string& otherwise) {
  const size_t at = concat(" ", header, " ").find(concat(" ", name, " "));
  if (at == std::string::npos) return otherwise;
  const size_t begin = at + name.size() + 1;
  return header.substr(begin, header.find(' ', begin) - begin);
}

// The nest that a case begins with: "[threads N] [on TARGET] [winograd]" in the header.
inline absl::StatusOr<Nest> start_of(absl::StatusOr<Program> program, const std::string& header) {
  const absl::StatusOr<Target> target = find_target(word_after(header, "on", "x86_avx512"));
  if (!program.ok() || !target.ok()) return program.ok() ? target.status() : program.status();
  Nest start = make_nest(std::make_shared<const Program>(*std::move(program)),
                         std::make_shared<const Target>(*target),
                         std::stoi(word_after(header, "threads", "1")));
  start.winograd = concat(header, " ").find("winograd ") != std::string::npos;
  return start;
}

// The nest of the case's own program.
inline absl::StatusOr<Nest> start_of(const TextCase& c, const std::string& header) {
  const absl::StatusOr<Module> module = parse_module(c.program, c.title);
  if (!module.ok()) return module.status();
  return start_of(instantiate(module->ops[0], {}), header);
}

}  // namespace lw
