#include "src/build/simt/export/export_parts.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "src/base/message.h"

namespace lw {
namespace {

using LaunchList = std::vector<SimtProgram::Launch>;
using ParameterKind = SimtProgram::Parameter::Kind;

std::string parameter_text(const SimtProgram::Parameter& parameter) {
  if (parameter.map.has_value()) {
    SimtProgram::Parameter buffer = parameter;
    buffer.map.reset();
    return concat("a tensor map of ", parameter_text(buffer));
  }
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

// The constants of buffers' bytes.
std::string buffer_sizes(const SimtProgram& program, const std::string& macro) {
  std::string sizes = "/* Of each buffer. */";
  for (size_t i = 0; i < program.arguments.size(); ++i) {
    absl::StrAppendFormat(&sizes, "\n#define %s_BUFFER_%d_BYTES ((size_t)%d)%s", macro, i,
                          program.arguments[i].bytes,
                          program.arguments[i].written ? "  /* written */" : "");
  }
  return sizes;
}

}  // namespace

std::string layout_comment(const SimtProgram& program, const ExportWords& words) {
  std::string text =
      concat(" * Contiguous, row-major, each from the first byte of ", words.buffer, "; bytes:");
  for (const auto& argument : program.arguments) text += concat(" ", argument.bytes);
  text += ".\n";
  const std::string counts = concat(words.group, "s x ", words.items);
  text += launches_text(program.prepack,
                        concat("Once, when the const inputs are there (", counts, ")"));
  text += launches_text(program.launches, concat("A call, one launch after the other (", counts,
                                                 " of a ", words.group, ")"));
  if (program.workspace_bytes > 0) {
    text += concat(" * workspace: a buffer of ", program.workspace_bytes,
                   " bytes that nobody else uses meanwhile.\n");
  }
  if (program.packed_bytes > 0) {
    text += concat(" * packed: a buffer of ", program.packed_bytes, " bytes.\n");
  }
  return text;
}

std::string launcher_text(const char* text, const SimtProgram& program, const std::string& name,
                          const std::vector<std::pair<std::string_view, std::string>>& more) {
  const std::string macro = absl::AsciiStrToUpper(name);
  std::vector<std::pair<std::string, std::string>> words = {
      {"$name", name},
      {"$NAME", macro},
      {"$buffers", std::to_string(program.arguments.size())},
      {"$sizes", buffer_sizes(program, macro)},
      {"$workspace", std::to_string(program.workspace_bytes)},
      {"$packed", std::to_string(program.packed_bytes)},
      {"$local", std::to_string(program.local_bytes)}};
  for (const auto& [word, what] : more) words.emplace_back(std::string(word), what);
  return absl::StrReplaceAll(text, words);
}

std::string launch_tables(const SimtProgram& program, std::string_view fields,
                          std::string (*sizes)(const SimtProgram::Launch& launch)) {
  size_t most = 1;
  LaunchList all = program.prepack;
  all.insert(all.end(), program.launches.begin(), program.launches.end());
  for (const auto& launch : all) most = std::max(most, launch.parameters.size());
  std::string text = absl::StrFormat(
      "enum { PREPACKS = %d, LAUNCHES = %d, WORKSPACE = -1, PACKED = -2 };\n\n"
      "/* PREPACKS of them before the first call, the others in each. */\n"
      "static const struct {\n"
      "  const char* kernel;\n"
      "%s"
      "  int parameters, of[%d];                   /* positions in `buffers`, or as above */\n"
      "} launches[LAUNCHES] = {\n",
      program.prepack.size(), all.size(), std::string(fields), most);
  int maps = 0;
  for (const auto& launch : all) {
    std::vector<std::string> of;
    for (const auto& p : launch.parameters) {
      of.push_back(p.map.has_value()                   ? concat("TENSOR_MAP - ", maps++)
                   : p.kind == ParameterKind::kWorkspace ? "WORKSPACE"
                   : p.kind == ParameterKind::kPacked  ? "PACKED"
                                                       : std::to_string(p.slot));
    }
    if (of.empty()) of.push_back("0");
    absl::StrAppendFormat(&text, "  {\"%s\", %s, %d, {%s}},\n", launch.kernel, sizes(launch),
                          launch.parameters.size(), absl::StrJoin(of, ", "));
  }
  return text + "};\n";
}

std::string launch_json(const SimtProgram& program, const std::string& source_file,
                        const std::string& binary_file) {
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(to_text(program));
  json.erase("source");
  json.erase("binary");
  json["source_file"] = source_file;
  if (!binary_file.empty()) {
    json["binary_file"] = binary_file;
    json["binary_made_for"] = program.binary.made_for;
  }
  return json.dump(2) + "\n";
}

// No digit can follow an escape of three, and with \? no three characters are a trigraph.
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

}  // namespace lw
