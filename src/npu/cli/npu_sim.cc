// npu_sim: programs for the simulated NPU, assembled, disassembled, timed. Exits 0 (done), 1 (the
// request, the configuration or the program is wrong), 2 (compare: further off than is aimed at),
// 3 (the program does not end: deadlock, overflow), 4 (--check found a race), 5 (a file cannot be
// read or written).
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>

#include "CLI/CLI.hpp"
#include "src/base/check.h"
#include "src/base/files.h"
#include "src/base/message.h"
#include "src/npu/cli/exec.h"
#include "src/npu/compare/compare.h"
#include "src/npu/function/function.h"
#include "src/npu/isa/check.h"
#include "src/npu/isa/encode.h"
#include "src/npu/isa/text.h"
#include "src/npu/module.h"
#include "src/npu/timing/report.h"

namespace lw::npu {
namespace {

enum Exit { kFine = 0, kWrong = 1, kMissed = 2, kNoEnd = 3, kRaces = 4, kEnvironment = 5 };

struct Words {                             // of the command line
  std::string program, config, output, timeline, reference, table, time = "us";
  bool json = false, check = false, fields = false, listing = false;
};

absl::StatusOr<Config> find_machine(const Words& words, const char* usual = "mid32") {
  return find_config(words.config.empty() ? usual : words.config);
}

template <class Value>
absl::StatusOr<Value> in_file(const std::string& path, absl::StatusOr<Value> value) {
  if (value.ok()) return value;
  return absl::InvalidArgumentError(concat(path, ": ", std::string(value.status().message())));
}

// A program and the machine that it is for: a module's own, unless another is named.
struct Given {
  Config config;
  Program program;
};

// As text, as an image or as a module, whichever the file is. Text that is `checked` is what the
// machine takes.
absl::StatusOr<Given> read_program(const Words& words, bool checked = true) {
  const std::string& path = words.program;
  ASSIGN_OR_RETURN(const std::string bytes, read_file(path));
  Given given;
  if (is_module(bytes)) {
    ASSIGN_OR_RETURN(Module module, in_file(path, read_module(bytes)));
    given.config = std::move(module.config);
    given.program = std::move(module.program);
    if (!words.config.empty()) {
      ASSIGN_OR_RETURN(given.config, find_machine(words));
    }
    return given;
  }
  ASSIGN_OR_RETURN(given.config, find_machine(words));
  ASSIGN_OR_RETURN(given.program,
                   is_image(bytes)
                       ? in_file(path, read_image(bytes))
                       : parse_program(bytes, path, checked ? &given.config : nullptr));
  return given;
}

absl::Status write(const std::string& path, const std::string& bytes) {
  if (path.empty() || path == "-") {
    std::cout << bytes << std::flush;
    return std::cout ? absl::OkStatus() : absl::UnavailableError("the output could not be written");
  }
  return write_file(path, bytes);
}

// Runs it on bytes of no meaning: who might touch what at the same time does not depend on them.
absl::StatusOr<int> check(const Config& config, const Program& program, const Timing& timing,
                          const std::vector<Span>& spans) {
  constexpr int64_t kMost = int64_t{1} << 30;
  int64_t end = 0;
  for (const Instruction& one : program) {
    for (const Access& access : accesses_of(one)) {
      if (access.place == Place::kDram) end = std::max(end, access.end());
    }
  }
  if (end > kMost) return absl::InvalidArgumentError("--check: DRAM of more than 1 GiB is used");
  // Zeros that the system makes when they are touched: a program may use a little of a lot.
  const std::unique_ptr<uint8_t, decltype(&std::free)> dram(
      static_cast<uint8_t*>(std::calloc(end + 1, 1)), std::free);
  if (dram == nullptr) return absl::InvalidArgumentError("--check: no memory for the DRAM it uses");
  ASSIGN_OR_RETURN(Memory memory,
                   make_memory(config, {{0, {dram.get(), static_cast<size_t>(end)}}}));
  ASSIGN_OR_RETURN(const FunctionReport report, execute(config, program, timing, spans, &memory));
  for (const std::string& error : report.errors) std::cerr << "npu_sim: " << error << "\n";
  if (report.races_found > static_cast<int64_t>(report.races.size())) {
    std::cerr << "npu_sim: " << report.races_found << " races in all\n";
  }
  return report.status == FunctionStatus::kOk ? kFine : kRaces;
}

absl::StatusOr<int> run(const Words& words) {
  ASSIGN_OR_RETURN(const Given given, read_program(words));
  const auto& [config, program] = given;
  std::vector<Span> spans;
  TimingOptions options;
  if (!words.timeline.empty() || words.check) options.timeline = &spans;
  ASSIGN_OR_RETURN(const Timing timing, simulate(config, program, options));
  if (!words.timeline.empty()) {
    RETURN_IF_ERROR(write(words.timeline, timeline_json(config, program, spans)));
  }
  RETURN_IF_ERROR(
      write("", words.json ? timing_json(config, timing) : timing_text(config, timing)));
  if (timing.ending != Ending::kDone) return kNoEnd;
  return words.check ? check(config, program, timing, spans) : kFine;
}

absl::StatusOr<int> assemble(const Words& words) {
  ASSIGN_OR_RETURN(const Given given, read_program(words));
  ASSIGN_OR_RETURN(const std::string image, make_image(given.program));
  RETURN_IF_ERROR(write(words.output, image));
  return kFine;
}

absl::StatusOr<int> disassemble(const Words& words) {
  ASSIGN_OR_RETURN(const Given given, read_program(words, /*checked=*/false));
  RETURN_IF_ERROR(write(words.output, print_program(given.program)));
  return kFine;
}

absl::StatusOr<int> exec(const Words&) {
  std::signal(SIGPIPE, SIG_IGN);           // a reader that is gone is said in words
  RETURN_IF_ERROR(serve_exec(/*in=*/0, /*out=*/1));
  return kFine;
}

absl::StatusOr<int> configs(const Words& words) {
  if (words.fields) {
    RETURN_IF_ERROR(write("", describe_fields()));
    return kFine;
  }
  if (words.listing) {                     // one of them, as its file
    ASSIGN_OR_RETURN(const Config config, find_config(words.config));
    RETURN_IF_ERROR(write("", print_config(config)));
    return kFine;
  }
  std::string text;
  std::vector<std::string> names = config_names();
  for (std::string& name : profile_names()) names.push_back(std::move(name));
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(const Config c, find_config(name));
    char line[200];
    std::snprintf(line, sizeof line,
                  "%-16s %3d x %-3d %-9s  SPM %5d KiB  ACC %4d KiB  DRAM %s, %.4g bytes/cycle\n",
                  name.c_str(), int(c.mx.rows), int(c.mx.columns),
                  std::string(name_of(c.mx.mode)).c_str(), int(c.spm.bytes >> 10),
                  int(c.acc.bytes >> 10), std::string(name_of(c.dram.kind)).c_str(),
                  peak_bytes_per_cycle(c));
    text += line;
  }
  RETURN_IF_ERROR(write("", text));
  return kFine;
}

template <class Comparison>
absl::StatusOr<int> show(const Config& config, const Comparison& comparison) {
  RETURN_IF_ERROR(write("", comparison_text(config, comparison)));
  return comparison.met() ? kFine : kMissed;
}

absl::StatusOr<int> compare(const Words& words) {
  ASSIGN_OR_RETURN(const std::string text, read_file(words.table));
  ASSIGN_OR_RETURN(const Table table, parse_table(text, words.table));
  if (words.reference == "tpu") {
    ASSIGN_OR_RETURN(const Config config, find_machine(words, "big128"));
    ASSIGN_OR_RETURN(const TpuComparison comparison, compare_tpu(config, table, words.time));
    return show(config, comparison);
  }
  ASSIGN_OR_RETURN(const Config config, find_machine(words, "nvdla2048"));
  ASSIGN_OR_RETURN(const NvdlaComparison comparison, compare_nvdla(config, table));
  return show(config, comparison);
}

int finish(const absl::StatusOr<int>& result) {
  if (result.ok()) return *result;
  std::cerr << "npu_sim: " << std::string(result.status().message()) << "\n";
  const bool file = absl::IsUnavailable(result.status()) || absl::IsNotFound(result.status());
  return file ? kEnvironment : kWrong;
}

}  // namespace
}  // namespace lw::npu

int main(int argc, char** argv) {
  using namespace lw::npu;
  Words words;
  std::function<absl::StatusOr<int>(const Words&)> chosen;
  CLI::App app("Times programs for the simulated NPU (docs/npu.md).", "npu_sim");
  app.require_subcommand(1);
  const auto command = [&](const char* name, const char* what,
                           absl::StatusOr<int> (*action)(const Words&)) {
    CLI::App* sub = app.add_subcommand(name, what);
    sub->callback([&chosen, action] { chosen = action; });
    return sub;
  };
  CLI::App* sub = command("run", "time a program", run);
  sub->add_option("PROGRAM", words.program, "text, image or module")->required();
  sub->add_option("--config", words.config,
                  "a name of `npu_sim configs`, or a file; by default mid32 or the module's own");
  sub->add_flag("--json", words.json, "print JSON");
  sub->add_flag("--check", words.check, "look for races: accesses that no token orders");
  sub->add_option("--timeline", words.timeline, "write Chrome's trace events there");
  sub = command("assemble", "text to image", assemble);
  sub->add_option("PROGRAM", words.program, "text")->required();
  sub->add_option("-o,--output", words.output, "where to; standard output otherwise");
  sub->add_option("--config", words.config, "whose limits are checked")->default_str("mid32");
  sub = command("disassemble", "image to text", disassemble);
  sub->add_option("PROGRAM", words.program, "image, module or text")->required();
  sub->add_option("-o,--output", words.output, "where to; standard output otherwise");
  sub = command("exec", "be a device of loopwright's: jobs in, results out (docs/exec.md)", exec);
  sub = command("compare", "this simulator beside figures that you bring (docs/npu.md)", compare);
  sub->add_option("REFERENCE", words.reference, "tpu: times of products; nvdla: its sheet's cycles")
      ->required()
      ->check(CLI::IsMember({"tpu", "nvdla"}));
  sub->add_option("TABLE", words.table, "comma-separated, names in the first line")->required();
  sub->add_option("--config", words.config, "the machine; by default big128 or nvdla2048");
  sub->add_option("--time", words.time, "of tpu: the column of times")->capture_default_str();
  sub = command("configs", "the machines that are shipped", configs);
  sub->add_flag("--fields", words.fields, "what a configuration's fields are, and their ranges");
  sub->add_option("--show", words.config, "print this one")->each([&](const std::string&) {
    words.listing = true;
  });
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    std::cerr << "npu_sim: " << error.what() << "\nRun `npu_sim --help` for what there is.\n";
    return kWrong;
  }
  return finish(chosen(words));
}
