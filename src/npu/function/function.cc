// Time goes from begin to begin, in the order of the timeline; what is done until then is finished
// first, in the order of its end. An operation that takes no time ends after it has begun.
#include "src/npu/function/function.h"

#include <algorithm>
#include <memory>

#include "src/base/check.h"
#include "src/base/message.h"
#include "src/base/named.h"
#include "src/npu/function/numbers.h"
#include "src/npu/function/operations.h"
#include "src/npu/isa/check.h"
#include "src/npu/isa/text.h"

namespace lw::npu {
namespace {

constexpr Named<FunctionStatus> kStatuses[] = {{FunctionStatus::kOk, "ok"},
                                               {FunctionStatus::kRace, "race"},
                                               {FunctionStatus::kDeadlock, "deadlock"},
                                               {FunctionStatus::kOverflow, "semaphore overflow"},
                                               {FunctionStatus::kBounds, "bounds"}};

absl::Status check_memory(const Config& config, const Memory& memory) {
  const int64_t spm = static_cast<int64_t>(memory.spm.size());
  const int64_t words = static_cast<int64_t>(memory.acc.size());
  if (spm == config.spm.bytes && words == config.acc.bytes / 4) return absl::OkStatus();
  return absl::InvalidArgumentError(concat("a memory of ", spm, " bytes of SPM and ", words,
                                           " words of ACC is not that of ", config.name));
}

// What of DRAM an instruction touches though nothing is there; "": nothing.
std::string out_of_bounds(const Instruction& instruction, const Memory& memory) {
  std::string why;
  for (const Access& access : accesses_of(instruction)) {
    if (access.place != Place::kDram) continue;
    access.each_run([&](int64_t begin, int64_t end) {
      if (!why.empty() || find_bytes(memory, begin, end - begin, access.write) != nullptr) return;
      why = concat(access.write ? "writes" : "reads", " DRAM [", begin, ", ", end,
                   "), which is in no buffer",
                   access.write && find_bytes(memory, begin, end - begin, false) != nullptr
                       ? " that may be written" : "");
    });
  }
  return why;
}

class Execution {
 public:
  Execution(const Config& config, const Program& program, Memory* memory,
            const FunctionOptions& options)
      : program_(program), options_(options), operations_(config, memory) {
    if (!options.races) return;
    order_ = std::make_unique<Order>(program);
    detector_ = std::make_unique<RaceDetector>(program);
  }

  FunctionReport run(std::vector<Span> spans) {
    std::stable_sort(spans.begin(), spans.end(),
                     [](const Span& a, const Span& b) { return a.begin < b.begin; });
    for (const Span& span : spans) {
      finish_until(span.begin);
      begin(span);
    }
    finish_until(kNever);
    report_.overflows = operations_.overflows();
    return std::move(report_);
  }

 private:
  struct UnderWay {
    Ticks end;
    uint64_t number;                       // of the begin
    uint32_t instruction;
    std::unique_ptr<Operands> operands;
  };
  static bool later(const UnderWay& a, const UnderWay& b) {
    return a.end != b.end ? a.end > b.end : a.number > b.number;
  }

  void begin(const Span& span) {
    std::unique_ptr<Operands> operands;
    if (idle_.empty()) {
      operands = std::make_unique<Operands>();
    } else {
      operands = std::move(idle_.back());
      idle_.pop_back();
    }
    if (order_ != nullptr) look(span.instruction);
    operations_.begin(program_[span.instruction], operands.get());
    under_way_.push_back({span.end, number_++, span.instruction, std::move(operands)});
    std::push_heap(under_way_.begin(), under_way_.end(), later);
  }

  void finish_until(Ticks time) {
    while (!under_way_.empty() && under_way_.front().end <= time) {
      std::pop_heap(under_way_.begin(), under_way_.end(), later);
      UnderWay one = std::move(under_way_.back());
      under_way_.pop_back();
      operations_.finish(program_[one.instruction], *one.operands);
      if (order_ != nullptr) order_->done(one.instruction);
      idle_.push_back(std::move(one.operands));
    }
  }

  void look(uint32_t index) {
    found_.clear();
    detector_->begin(index, order_->begin(index), &found_);
    for (const Race& race : found_) {
      report_.status = FunctionStatus::kRace;
      if (++report_.races_found > options_.most_errors) continue;
      report_.races.push_back(race);
      report_.errors.push_back(describe(program_, race));
    }
  }

  const Program& program_;
  const FunctionOptions& options_;
  const IeeeArithmetic arithmetic_;
  Operations operations_;
  std::unique_ptr<Order> order_;
  std::unique_ptr<RaceDetector> detector_;
  std::vector<UnderWay> under_way_;        // a heap: the earliest end first
  std::vector<std::unique_ptr<Operands>> idle_;
  uint64_t number_ = 0;
  std::vector<Race> found_;
  FunctionReport report_;
};

}  // namespace

std::string_view name_of(FunctionStatus status) { return name_in(kStatuses, status); }

absl::StatusOr<FunctionReport> execute(const Config& config, const Program& program,
                                       const Timing& timing, std::span<const Span> timeline,
                                       Memory* memory, const FunctionOptions& options) {
  RETURN_IF_ERROR(check_program(config, program));
  RETURN_IF_ERROR(check_memory(config, *memory));
  FunctionReport report;
  if (timing.ending != Ending::kDone) {
    report.status = timing.ending == Ending::kDeadlock ? FunctionStatus::kDeadlock
                                                       : FunctionStatus::kOverflow;
    report.errors.push_back(timing.blocked);
    return report;
  }
  for (const Span& span : timeline) {
    if (span.instruction >= program.size() || program[span.instruction].op().dispatcher ||
        span.end < span.begin) {
      return absl::InvalidArgumentError("the timeline is not of this program");
    }
    const Instruction& one = program[span.instruction];
    const std::string why = out_of_bounds(one, *memory);
    if (why.empty()) continue;
    report.status = FunctionStatus::kBounds;
    report.errors.push_back(concat("instruction ", span.instruction, " (", print_instruction(one),
                                   ") ", why));
    if (static_cast<int>(report.errors.size()) >= options.most_errors) break;
  }
  if (report.status == FunctionStatus::kBounds) return report;
  return Execution(config, program, memory, options).run({timeline.begin(), timeline.end()});
}

absl::StatusOr<FunctionReport> execute(const Config& config, const Program& program,
                                       Memory* memory, const FunctionOptions& options) {
  std::vector<Span> timeline;
  TimingOptions timing_options;
  timing_options.timeline = &timeline;
  ASSIGN_OR_RETURN(const Timing timing, simulate(config, program, timing_options));
  return execute(config, program, timing, timeline, memory, options);
}

}  // namespace lw::npu
