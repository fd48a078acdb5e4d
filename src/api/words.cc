#include "src/api/words.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace lw {
namespace {

namespace fs = std::filesystem;

fs::path absolute(const std::string& folder) {
  std::error_code error;
  const fs::path path = fs::absolute(folder.empty() ? "." : folder, error);
  return error ? fs::path(folder) : path;
}

}  // namespace

std::string with_path(const std::string& words, absl::FunctionRef<fs::path(const fs::path&)> to) {
  const size_t first = std::min(words.find(' '), words.size());
  const size_t dot = words.substr(0, first).rfind(".te");
  if (dot == std::string::npos) return words;
  const size_t end = dot + 3;
  if (end != first && words[end] != ':') return words;
  return to(fs::path(words.substr(0, end))).string() + words.substr(end);
}

std::string label_of(const std::vector<std::string>& words, const Program& program) {
  std::string label;
  for (const std::string& word : words) {
    label += label.empty() ? "" : " ";
    label += is_program_text(word) ? program.name : word;
  }
  return label;
}

std::string file_of_words(const std::string& words) {
  std::string file;
  with_path(words, [&](const fs::path& path) {
    file = path.string();
    return path;
  });
  return file;
}

std::string absolute_words(const std::string& words, const std::string& folder) {
  return with_path(words, [&](const fs::path& path) {
    return (absolute(folder) / path).lexically_normal();
  });
}

std::string relative_words(const std::string& words, const std::string& folder) {
  fs::path from = absolute(folder).lexically_normal();
  if (!from.has_filename()) from = from.parent_path();  // it ended with a slash
  return with_path(words, [&](const fs::path& path) {
    return (absolute("") / path).lexically_normal().lexically_relative(from);
  });
}

}  // namespace lw
