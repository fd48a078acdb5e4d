// What exported kernels of all languages have in common: comments, constants and tables of their
// launchers in C. Pure; thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/build/simt/program.h"

namespace lw {

// What a language calls things.
struct ExportWords {
  std::string_view buffer;                 // "its cl_mem": what a buffer is for who calls
  std::string_view group, items;           // "group", "items"
};

// Lines of a comment, for people: the buffers' bytes, what is launched when, what else is needed.
std::string layout_comment(const SimtProgram& program, const ExportWords& words);

// A text for a launcher with its words put in: $name and $NAME are the kernel's name, $buffers how
// many there are, $sizes the constants of their bytes, $workspace, $packed and $local bytes. `more`
// are words of the language's own, "$options" and what it stands for.
std::string launcher_text(
    const char* text, const SimtProgram& program, const std::string& name,
    const std::vector<std::pair<std::string_view, std::string>>& more = {});

// PREPACKS, LAUNCHES, WORKSPACE and PACKED, and a table `launches`. `fields` declares what a row
// says of sizes between the kernel's name and its parameters; `sizes` are a launch's.
std::string launch_tables(const SimtProgram& program, std::string_view fields,
                          std::string (*sizes)(const SimtProgram::Launch& launch));

// The program as JSON with names of files in place of its source and, unless that is "", of its
// binary.
std::string launch_json(const SimtProgram& program, const std::string& source_file,
                        const std::string& binary_file);

// A literal of C99, in pieces that its smallest compilers take.
std::string c_literal(std::string_view text);

}  // namespace lw
