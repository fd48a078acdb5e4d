#include "src/learn/dataset.h"

#include <zstd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "schedules/steps.h"
#include "src/api/task.h"
#include "src/base/check.h"
#include "src/base/files.h"
#include "src/base/message.h"
#include "src/expr/expr.h"
#include "src/expr/language/text.h"

namespace lw {
namespace {

constexpr std::string_view kHeader = "loopwright data 1";
constexpr int kLevel = 12;                 // of compression
constexpr uint64_t kMostBytes = uint64_t{1} << 30;

// (Debian's absl::StrSplit takes no std::string_view.)
std::vector<std::string> split(std::string_view text, char at) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(at, begin), text.size());
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

// The first word, and what follows it.
std::pair<std::string_view, std::string_view> first_word(std::string_view line) {
  const size_t end = std::min(line.find(' '), line.size());
  return {line.substr(0, end), line.substr(std::min(end + 1, line.size()))};
}

std::string const_text(const TaskSpec& spec) {
  if (!spec.const_names) return "-";
  return spec.const_names->empty() ? "none" : absl::StrJoin(*spec.const_names, ",");
}

void parse_const(const std::string& text, TaskSpec& spec) {
  if (text == "-") return;
  spec.const_names.emplace();
  if (text != "none") *spec.const_names = split(text, ',');
}

bool parse_number(std::string_view text, auto* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size();
}

bool parse_time(std::string_view text, double* value) {
  return parse_number(text, value) && std::isfinite(*value) && *value >= 0;
}

// The line's first word is read; `rest` is what follows it.
absl::Status parse_target_line(std::string_view rest, Dataset& dataset) {
  const auto [name, json] = first_word(rest);
  ASSIGN_OR_RETURN(dataset.targets[std::string(name)], read_target(json));
  return absl::OkStatus();
}

absl::Status parse_task_line(std::string_view rest, Dataset& dataset) {
  const std::vector<std::string> fields = split(rest, ' ');
  MeasuredTask task;
  if (fields.size() < 5 || !parse_number(fields[2], &task.spec.threads) || task.spec.threads < 1)
    return absl::InvalidArgumentError("a task needs a class, a target, threads, const and words");
  task.spec.kind = fields[0];
  task.spec.target = fields[1];
  parse_const(fields[3], task.spec);
  task.spec.words.assign(fields.begin() + 4, fields.end());
  if (dataset.targets.count(task.spec.target) == 0)
    return absl::InvalidArgumentError(concat("no target '", task.spec.target, "' before it"));
  dataset.tasks.push_back(std::move(task));
  return absl::OkStatus();
}

absl::Status parse_program_line(std::string_view rest, Dataset& dataset) {
  const std::vector<std::string> fields = split(rest, ' ');
  MeasuredProgram program;
  if (dataset.tasks.empty()) return absl::InvalidArgumentError("a program of no task");
  if (fields.size() != 4 || fields[0].size() != 1 || !parse_time(fields[1], &program.time_us) ||
      !parse_time(fields[2], &program.low_us) || !parse_time(fields[3], &program.high_us))
    return absl::InvalidArgumentError("a program needs a source and three times");
  program.source = fields[0][0];
  dataset.tasks.back().programs.push_back(std::move(program));
  return absl::OkStatus();
}

absl::Status parse_line(std::string_view line, Dataset& dataset) {
  if (line.empty()) return absl::OkStatus();
  if (line[0] == '\t') {
    if (dataset.tasks.empty() || dataset.tasks.back().programs.empty())
      return absl::InvalidArgumentError("a step of no program");
    std::string& trace = dataset.tasks.back().programs.back().trace;
    trace.append(line.substr(1)).push_back('\n');
    return absl::OkStatus();
  }
  const auto [word, rest] = first_word(line);
  if (word == "target") return parse_target_line(rest, dataset);
  if (word == "task") return parse_task_line(rest, dataset);
  if (word == "program") return parse_program_line(rest, dataset);
  return absl::InvalidArgumentError(concat("unknown word '", word, "'"));
}

// As one line: the text form has one field a line.
std::string target_line(const Target& target) {
  std::string line;
  for (const std::string& part : split(to_text(target), '\n')) {
    line.append(part.substr(std::min(part.find_first_not_of(' '), part.size())));
  }
  return line;
}

}  // namespace

std::string to_text(const Dataset& dataset) {
  std::string text = concat(kHeader, "\n");
  for (const auto& [name, target] : dataset.targets)
    text += concat("target ", name, " ", target_line(target), "\n");
  for (const MeasuredTask& task : dataset.tasks) {
    text += concat("task ", task.spec.kind, " ", task.spec.target, " ", task.spec.threads, " ",
                   const_text(task.spec), " ", absl::StrJoin(task.spec.words, " "), "\n");
    for (const MeasuredProgram& program : task.programs) {
      text += absl::StrFormat("program %c %.4g %.4g %.4g\n", program.source, program.time_us,
                              program.low_us, program.high_us);
      for (const std::string& step : split(program.trace, '\n')) {
        if (!step.empty()) text += concat("\t", step, "\n");
      }
    }
  }
  return text;
}

absl::StatusOr<Dataset> parse_dataset(std::string_view text) {
  Dataset dataset;
  int number = 0;
  for (const std::string& line : split(text, '\n')) {
    ++number;
    if (number == 1) {
      if (line != kHeader)
        return absl::InvalidArgumentError(concat("line 1: not '", kHeader, "'"));
      continue;
    }
    const absl::Status status = parse_line(line, dataset);
    if (!status.ok())
      return absl::InvalidArgumentError(
          concat("line ", number, ": ", std::string(status.message())));
  }
  return dataset;
}

absl::StatusOr<Dataset> load_dataset(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string packed, read_file(path));
  const unsigned long long size = ZSTD_getFrameContentSize(packed.data(), packed.size());
  if (size == ZSTD_CONTENTSIZE_ERROR || size == ZSTD_CONTENTSIZE_UNKNOWN || size > kMostBytes)
    return absl::DataLossError(concat(path, " is no compressed data set"));
  std::string text(size, '\0');
  const size_t got = ZSTD_decompress(text.data(), text.size(), packed.data(), packed.size());
  if (ZSTD_isError(got))
    return absl::DataLossError(concat(path, ": ", std::string(ZSTD_getErrorName(got))));
  absl::StatusOr<Dataset> dataset = parse_dataset(text);
  if (dataset.ok()) return dataset;
  return absl::InvalidArgumentError(
      concat(path, ": ", std::string(dataset.status().message())));
}

absl::Status save_dataset(const Dataset& dataset, const std::string& path) {
  const std::string text = to_text(dataset);
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  const size_t size =
      ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), kLevel);
  CHECK(!ZSTD_isError(size));
  packed.resize(size);
  return replace_file(path, packed);
}

absl::StatusOr<Task> task_of(const TaskSpec& spec, const Target& target) {
  ASSIGN_OR_RETURN(Program program,
                   load_workload(spec.words, spec.const_names ? &*spec.const_names : nullptr));
  return make_task(std::move(program), absl::StrJoin(spec.words, " "), target, spec.threads);
}

LabelledExamples examples_of(const Dataset& dataset, LabelledBy by) {
  LabelledExamples result;
  for (size_t t = 0; t < dataset.tasks.size(); ++t) {
    const MeasuredTask& measured = dataset.tasks[t];
    const absl::StatusOr<Task> task =
        task_of(measured.spec, dataset.targets.at(measured.spec.target));
    if (!task.ok()) {
      result.skipped += static_cast<int64_t>(measured.programs.size());
      continue;
    }
    const std::string& label = by == LabelledBy::kClass ? measured.spec.kind : measured.spec.target;
    auto kind = std::find(result.kinds.begin(), result.kinds.end(), label);
    if (kind == result.kinds.end()) kind = result.kinds.insert(kind, label);
    for (const MeasuredProgram& program : measured.programs) {
      const absl::StatusOr<Trace> trace = parse_trace(program.trace);
      const absl::StatusOr<Nest> nest = trace.ok() ? replay(task->start(), *trace) : trace.status();
      if (!nest.ok()) {
        ++result.skipped;
        continue;
      }
      Example example;
      example.features = features(*nest);
      example.group = t;
      example.time_us = program.time_us;
      example.failed = program.time_us == 0;
      example.low_us = program.low_us, example.high_us = program.high_us;
      result.examples.push_back(std::move(example));
      result.kind.push_back(static_cast<int>(kind - result.kinds.begin()));
      result.uniform.push_back(program.source == 'u');
    }
  }
  return result;
}

}  // namespace lw
