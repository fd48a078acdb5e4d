#include "src/build/simt/export.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/build/simt/export_launcher.h"
#include "src/build/simt/program.h"

namespace lw {
namespace {

using LaunchList = std::vector<SimtProgram::Launch>;
using ParameterKind = SimtProgram::Parameter::Kind;

std::string parameter_text(const SimtProgram::Parameter& parameter) {
  switch (parameter.kind) {
    case ParameterKind::kArgument: return concat("[", parameter.slot, "]");
    case ParameterKind::kWorkspace: return "workspace";
    case ParameterKind::kPacked: return "packed";
  }
  return "";
}

std::string launches_text(const LaunchList& launches, std::string_view when) {
  if (launches.empty()) return "";
  std::string text = concat(" * ", when, ":\n");
  for (const SimtProgram::Launch& launch : launches) {
    std::vector<std::string> parameters;
    for (const auto& one : launch.parameters) parameters.push_back(parameter_text(one));
    absl::StrAppendFormat(&text, " *   %s, %d x %d: %s\n", launch.kernel, launch.groups,
                          launch.items, absl::StrJoin(parameters, ", "));
  }
  return text;
}

// Of the buffers and launches, for people: lines of a comment.
std::string layout_of(const SimtProgram& program) {
  std::string text = " * Contiguous, row-major, each from the first byte of its cl_mem; bytes:";
  for (const auto& argument : program.arguments) text += concat(" ", argument.bytes);
  text += ".\n";
  text += launches_text(program.prepack, "Once, when the const inputs are there (groups x items)");
  text += launches_text(program.launches,
                        "A call, one launch after the other (groups x items of a group)");
  if (program.workspace_bytes > 0) {
    text += concat(" * workspace: a buffer of ", program.workspace_bytes,
                   " bytes that nobody else uses meanwhile.\n");
  }
  if (program.packed_bytes > 0) {
    text += concat(" * packed: a buffer of ", program.packed_bytes, " bytes.\n");
  }
  return text;
}

// A literal of C99, in pieces that its smallest compilers take. No digit can follow an escape of
// three, and with \? no three characters are a trigraph.
std::string c_literal(std::string_view text) {
  constexpr size_t kMost = 1000;
  std::string out = "\"";
  size_t written = 0;
  for (const char c : text) {
    if (++written % kMost == 0) out += "\",\n  \"";
    if (c == '\n') {
      out += "\\n";
    } else if (c == '"' || c == '\\' || c == '?') {
      out += concat("\\", std::string(1, c));
    } else if (absl::ascii_isprint(static_cast<unsigned char>(c))) {
      out += c;
    } else {
      out += absl::StrFormat("\\%03o", static_cast<unsigned char>(c));
    }
  }
  return out + "\"";
}

std::string tables(const SimtProgram& program) {
  size_t most = 1;
  LaunchList all = program.prepack;
  all.insert(all.end(), program.launches.begin(), program.launches.end());
  for (const auto& launch : all) most = std::max(most, launch.parameters.size());
  std::string text = absl::StrFormat(
      "enum { PREPACKS = %d, LAUNCHES = %d, WORKSPACE = -1, PACKED = -2 };\n\n"
      "/* PREPACKS of them before the first call, the others in each. */\n"
      "static const struct {\n"
      "  const char* kernel;\n"
      "  size_t groups, items;                    /* of a group */\n"
      "  int parameters, of[%d];                   /* positions in `buffers`, or as above */\n"
      "} launches[LAUNCHES] = {\n",
      program.prepack.size(), all.size(), most);
  for (const auto& launch : all) {
    std::vector<std::string> of;
    for (const auto& p : launch.parameters) {
      of.push_back(p.kind == ParameterKind::kWorkspace ? "WORKSPACE"
                   : p.kind == ParameterKind::kPacked  ? "PACKED"
                                                       : std::to_string(p.slot));
    }
    if (of.empty()) of.push_back("0");
    absl::StrAppendFormat(&text, "  {\"%s\", %d, %d, %d, {%s}},\n", launch.kernel, launch.groups,
                          launch.items, launch.parameters.size(), absl::StrJoin(of, ", "));
  }
  text += "};\n\nstatic const char* source[] = {\n";
  std::vector<std::string> lines = absl::StrSplit(program.source, '\n');
  if (lines.back().empty()) lines.pop_back();
  for (const std::string& line : lines) text += concat("  ", c_literal(line + "\n"), ",\n");
  return text + "};\n";
}

std::string launch_json(const SimtProgram& program, const std::string& file) {
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(to_text(program));
  json.erase("source");
  json["source_file"] = file;
  return json.dump(2) + "\n";
}

}  // namespace

absl::StatusOr<std::vector<ExportedFile>> export_opencl(const Artifact& artifact,
                                                        const std::string& about) {
  ASSIGN_OR_RETURN(const SimtProgram program, parse_simt_program(artifact.bytes));
  if (program.launches.empty()) {
    return absl::InvalidArgumentError(concat("'", artifact.entry, "' launches nothing"));
  }
  const std::string macro = absl::AsciiStrToUpper(artifact.entry);
  std::string sizes = "/* Of each buffer. */";
  for (size_t i = 0; i < program.arguments.size(); ++i) {
    absl::StrAppendFormat(&sizes, "\n#define %s_BUFFER_%d_BYTES ((size_t)%d)%s", macro, i,
                          program.arguments[i].bytes,
                          program.arguments[i].written ? "  /* written */" : "");
  }
  const auto filled = [&](const char* text) {
    return absl::StrReplaceAll(text, {{"$name", artifact.entry},
                                      {"$NAME", macro},
                                      {"$buffers", std::to_string(program.arguments.size())},
                                      {"$sizes", sizes},
                                      {"$workspace", std::to_string(program.workspace_bytes)},
                                      {"$packed", std::to_string(program.packed_bytes)},
                                      {"$local", std::to_string(program.local_bytes)},
                                      {"$options", c_literal(program.options)}});
  };
  const std::string beginning = about + layout_of(program);
  return std::vector<ExportedFile>{
      {".cl", beginning + " */\n" + program.source},
      {".json", launch_json(program, artifact.entry + ".cl")},
      {".c", filled("/* Generated by Loopwright: see $name.h. */\n#include \"$name.h\"\n\n"
                    "#include <stdlib.h>\n#include <string.h>\n\n") +
                 tables(program) + filled(kLauncherCode)},
      {".h", beginning + filled(kLauncherHeader)}};
}

}  // namespace lw
