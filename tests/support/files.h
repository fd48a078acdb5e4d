// Whole files, as tests read them.
#pragma once

#include <fstream>
#include <sstream>
#include <string>

namespace lw {

inline std::string slurp(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace lw
