#include "src/build/simt/ptx/export/export.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/build/simt/ptx/export/export_launcher.h"
#include "src/build/simt/export/export_parts.h"
#include "src/build/simt/program.h"

namespace lw {
namespace {

// What a grid of one dimension, a block and its shared memory are at most, of any GPU.
constexpr int64_t kMostBlocks = INT32_MAX, kMostThreads = 1024, kMostShared = 1 << 20;

struct Release {
  int major = 0, minor = 0;
};

// "8.0" at the beginning of a text.
std::optional<Release> release_at(std::string_view text) {
  Release release;
  const char* const end = text.data() + text.size();
  const auto major = std::from_chars(text.data(), end, release.major);
  if (major.ec != std::errc() || major.ptr == end || *major.ptr != '.') return std::nullopt;
  if (std::from_chars(major.ptr + 1, end, release.minor).ec != std::errc()) return std::nullopt;
  return release;
}

// A processor's compute capability and which others run what is made for it: "sm_90a" of none,
// "sm_100f" of its family.
struct Processor {
  Release capability;
  char suffix = '\0';
};
std::optional<Processor> processor_at(std::string_view text) {
  if (!text.starts_with("sm_")) return std::nullopt;
  text.remove_prefix(3);
  int number = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  if (read.ec != std::errc()) return std::nullopt;
  Processor processor{{number / 10, number % 10}};
  if (read.ptr != end && (*read.ptr == 'a' || *read.ptr == 'f')) processor.suffix = *read.ptr;
  return processor;
}

// What stands behind a directive, at the beginning of a line.
std::string_view directive(std::string_view ptx, std::string_view name) {
  for (size_t at = ptx.find(name); at != ptx.npos; at = ptx.find(name, at + 1)) {
    if (at > 0 && ptx[at - 1] != '\n') continue;
    ptx.remove_prefix(at + name.size());
    ptx.remove_prefix(std::min(ptx.find_first_not_of(" \t"), ptx.size()));
    return ptx.substr(0, ptx.find('\n'));
  }
  return "";
}

// The CUDA release, as cuDriverGetVersion() says it, that first took a version of PTX: 7.0 came
// with 11.0, 8.0 with 12.0, and minor versions with minor releases or, a few of 8, with later ones:
// that the driver itself says.
int driver_of_ptx(const Release& version) {
  return (version.major + 4) * 1000 + version.minor * 10;
}

// Constants for the text and the cubin: on which GPUs, and with which drivers, they run.
absl::StatusOr<std::string> fitting_constants(const SimtProgram& program) {
  const std::optional<Release> version = release_at(directive(program.source, ".version"));
  const std::optional<Processor> target = processor_at(directive(program.source, ".target"));
  if (!version.has_value() || !target.has_value()) {
    return absl::InvalidArgumentError("the text has no .version and .target of PTX");
  }
  Processor cubin;
  Release assembler;
  if (!program.binary.bytes.empty()) {
    // "sm_90a ptxas 13.0.88"; a cubin wants a driver of the assembler's major release.
    const std::string_view made_for = program.binary.made_for, before = " ptxas ";
    const size_t at = made_for.find(before);
    const std::optional<Processor> made = processor_at(made_for);
    const std::optional<Release> by =
        at == made_for.npos ? std::nullopt : release_at(made_for.substr(at + before.size()));
    if (!made.has_value() || !by.has_value()) {
      return absl::InvalidArgumentError(
          concat("a cubin made for '", made_for, "', which is no 'sm_90a ptxas 13.0.88'"));
    }
    cubin = *made;
    assembler = *by;
  }
  return absl::StrFormat(
      "\n/* On which compute capabilities, with which CUDA of the driver's they run. */\n"
      "enum { EXACTLY, SAME_MAJOR, OR_LATER };\n"
      "enum { PTX_FITS = %s, PTX_MAJOR = %d, PTX_MINOR = %d, PTX_DRIVER = %d };\n"
      "enum { CUBIN_FITS = %s, CUBIN_MAJOR = %d, CUBIN_MINOR = %d, CUBIN_DRIVER = %d };\n",
      target->suffix == 'a' ? "EXACTLY" : target->suffix == 'f' ? "SAME_MAJOR" : "OR_LATER",
      target->capability.major, target->capability.minor, driver_of_ptx(*version),
      cubin.suffix == 'a' ? "EXACTLY" : "SAME_MAJOR", cubin.capability.major,
      cubin.capability.minor, assembler.major * 1000);
}

// An array in C, that stands where a number of 64 bits may.
std::string byte_array(std::string_view name, std::string_view bytes) {
  constexpr size_t kWidth = 96;
  std::string text = absl::StrFormat("\nstatic const union {\n  unsigned char bytes[%d];\n"
                                     "  uint64_t alignment;\n} %s = {{\n",
                                     std::max<size_t>(bytes.size(), 1), std::string(name));
  std::string line = " ";
  for (const char byte : bytes.empty() ? std::string_view("", 1) : bytes) {
    line += concat(" ", static_cast<int>(static_cast<unsigned char>(byte)), ",");
    if (line.size() < kWidth - 5) continue;
    text += concat(line, "\n");
    line = " ";
  }
  if (line.size() > 1) text += concat(line, "\n");
  return text + "}};\n";
}

std::string nvidia_sizes(const SimtProgram::Launch& launch) {
  return absl::StrFormat("%d, %d, %d", launch.groups, launch.items, launch.local_bytes);
}

// "{1, 2, 3}".
std::string numbers(const std::vector<int64_t>& list) {
  return list.empty() ? "{0}" : concat("{", absl::StrJoin(list, ", "), "}");
}

// Tensor maps, in the order of the parameters that they are.
std::string map_table(const SimtProgram& program) {
  std::string rows;
  int maps = 0;
  for (const auto* launches : {&program.prepack, &program.launches}) {
    for (const auto& launch : *launches) {
      for (const auto& p : launch.parameters) {
        if (!p.map.has_value()) continue;
        ++maps;
        const bool packed = p.kind == SimtProgram::Parameter::Kind::kPacked;
        absl::StrAppendFormat(&rows, "  {%s, %d, %d, %d, %d, %s, %s, %s},\n",
                              packed ? "PACKED" : std::to_string(p.slot), p.map->element_bytes,
                              p.map->sizes.size(), int{p.map->swizzled}, p.map->offset,
                              numbers(p.map->sizes), numbers(p.map->strides),
                              numbers(p.map->box));
      }
    }
  }
  const std::string count = absl::StrFormat("\n#define TENSOR_MAPS %d\n", maps);
  if (maps == 0) return count;
  return count +
         "/* Of tensors in buffers, and of the boxes that are copied: the innermost dimension first.\n"
         " * Strides are bytes. */\n"
         "static const struct {\n"
         "  int of, element_bytes;\n"
         "  unsigned rank;\n"
         "  int swizzled;\n"
         "  uint64_t offset, sizes[5], strides[5];\n"
         "  uint32_t box[5];\n"
         "} tensor_maps[TENSOR_MAPS] = {\n" + rows + "};\n";
}

std::string nvidia_tables(const SimtProgram& program) {
  size_t most = 1;
  for (const auto* launches : {&program.prepack, &program.launches}) {
    for (const auto& launch : *launches) most = std::max(most, launch.parameters.size());
  }
  return "enum { TENSOR_MAP = -3 };                  /* and below: in `tensor_maps` */\n" +
         launch_tables(program,
                       "  unsigned blocks, threads, shared_bytes;  /* of a block */\n",
                       nvidia_sizes) +
         map_table(program) + absl::StrFormat("enum { PARAMETERS = %d, CUBIN_BYTES = %d };\n", most,
                         program.binary.bytes.size());
}

absl::Status check_launches(const SimtProgram& program, const std::string& entry) {
  if (program.launches.empty()) {
    return absl::InvalidArgumentError(concat("'", entry, "' launches nothing"));
  }
  for (const auto* launches : {&program.prepack, &program.launches}) {
    for (const SimtProgram::Launch& launch : *launches) {
      if (launch.groups <= kMostBlocks && launch.items <= kMostThreads &&
          launch.local_bytes <= kMostShared) {
        continue;
      }
      return absl::InvalidArgumentError(
          concat("'", launch.kernel, "' is launched with ", launch.groups, " blocks of ",
                 launch.items, " threads and ", launch.local_bytes,
                 " bytes of shared memory: more than any GPU has"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<ExportedFile>> export_nvidia(const Artifact& artifact,
                                                        const std::string& about) {
  ASSIGN_OR_RETURN(SimtProgram program, parse_simt_program(artifact.bytes));
  RETURN_IF_ERROR(check_launches(program, artifact.entry));
  for (const auto* launches : {&program.prepack, &program.launches}) {
    for (const auto& one : *launches) {
      program.local_bytes = std::max(program.local_bytes, one.local_bytes);
    }
  }
  ASSIGN_OR_RETURN(const std::string fitting, fitting_constants(program));
  const auto filled = [&](const char* text) {
    return launcher_text(text, program, artifact.entry);
  };
  const std::string beginning =
      about +
      layout_comment(program, {.buffer = "its CUdeviceptr", .group = "block", .items = "threads"});
  const bool has_cubin = !program.binary.bytes.empty();
  std::vector<ExportedFile> files = {
      {".ptx", beginning + " */\n" + program.source},
      {".json", launch_json(program, artifact.entry + ".ptx",
                            has_cubin ? artifact.entry + ".cubin" : "")},
      // The text ends with a 0: so the driver wants it.
      {".c", filled(kNvidiaLauncherStart) + nvidia_tables(program) + fitting +
                 byte_array("ptx", program.source + '\0') +
                 byte_array("cubin", program.binary.bytes) + filled(kNvidiaLauncherCode)},
      {".h", beginning + filled(kNvidiaLauncherHeader)}};
  if (has_cubin) files.push_back({".cubin", program.binary.bytes});
  return files;
}

}  // namespace lw
