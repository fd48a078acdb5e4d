// Whole files, as tests read them, and whether they write what they expect anew.
#pragma once

#include <cstdlib>
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

inline bool rewrites_expectations() { return std::getenv("LOOPWRIGHT_UPDATE") != nullptr; }

}  // namespace lw
