#include "src/learn/gather.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <set>

#include "src/base/check.h"
#include "src/base/files.h"
#include "src/base/rng.h"
#include "src/expr/message.h"
#include "src/lower/lower.h"
#include "src/measure/timing.h"
#include "src/measure/workbench.h"

namespace lw {
namespace {

constexpr int kTriesEach = 6;              // draws a program that is wanted
constexpr int kDrafts = 240;               // that the searched ones are the best of
constexpr int kChildrenDrawn = 120;
constexpr int kRounds = 3;                 // apart in time: a disturbance spoils one
constexpr double kRaced = 3;               // times the first: the incumbent that all race against
constexpr double kPollSeconds = 1;
constexpr int kMostIdlePolls = 120;
constexpr int kFewSamples = 3, kSomeSamples = 6;
constexpr double kWideInterval = 0.05, kNarrowInterval = 0.02;  // relative, of so few samples

struct Drafted {
  int sketch;
  Sample sample;
  double draft_us;
};

absl::StatusOr<Drafted> drafted(int sketch, absl::StatusOr<Sample> sample) {
  RETURN_IF_ERROR(sample.status());
  const double us = draft_us(sample->nest);
  return Drafted{sketch, *std::move(sample), us};
}

void sort_by_draft(std::vector<Drafted>& all) {
  std::stable_sort(all.begin(), all.end(),
                   [](const Drafted& a, const Drafted& b) { return a.draft_us < b.draft_us; });
}

// Programs of different kernels.
class Chosen {
 public:
  bool add(const Drafted& one, char source) {
    const absl::StatusOr<Kernel> kernel = lower(one.sample.nest);
    if (!kernel.ok() || !kernels_.insert(hash(*kernel)).second) return false;
    programs.push_back({to_text(one.sample.trace), source,
                        std::make_shared<const Kernel>(*kernel), one.draft_us});
    return true;
  }
  // The first `count` that are new.
  void add_first(const std::vector<Drafted>& from, int count, char source) {
    for (size_t i = 0; i < from.size() && count > 0; ++i) count -= add(from[i], source);
  }

  std::vector<DrawnProgram> programs;

 private:
  std::set<uint64_t> kernels_;
};

// Of so few samples the range says too little.
void widen(MeasuredProgram& program, size_t samples) {
  const double least = samples < kFewSamples    ? kWideInterval
                       : samples < kSomeSamples ? kNarrowInterval
                                                : 0;
  program.low_us = std::min(program.low_us, program.time_us * (1 - least));
  program.high_us = std::max(program.high_us, program.time_us * (1 + least));
}

// What is known of a program's time, over all rounds.
struct TimesSeen {
  std::vector<double> samples;
  bool failed = false;
};

absl::Status time_some(const std::vector<DrawnProgram>& programs, const std::vector<size_t>& which,
                       double incumbent_us, Measurer& measurer, std::vector<TimesSeen>& timed) {
  std::vector<Candidate> batch;
  for (size_t i : which) {
    Candidate candidate;
    candidate.ticket = static_cast<int64_t>(i);
    candidate.kernel = programs[i].kernel;
    candidate.draft_us = programs[i].draft_us;
    candidate.incumbent_us = incumbent_us;
    batch.push_back(std::move(candidate));
  }
  measurer.submit(std::move(batch));
  size_t arrived = 0;
  for (int idle = 0; arrived < which.size(); ++idle) {
    if (idle > kMostIdlePolls) return absl::UnavailableError("the measurer answers no more");
    for (const Outcome& outcome : measurer.poll(kPollSeconds)) {
      idle = 0;
      ++arrived;
      TimesSeen& of = timed[outcome.ticket];
      of.failed = of.failed || is_candidates_fault(outcome.verdict);
      if (outcome.verdict != Verdict::kOk) continue;
      of.samples.insert(of.samples.end(), outcome.samples_us.begin(), outcome.samples_us.end());
    }
  }
  return absl::OkStatus();
}

// Hands out what was built before.
class KeptObjects : public Backend {
 public:
  KeptObjects(const Backend* builder, std::map<uint64_t, Artifact> kept)
      : builder_(builder), kept_(std::move(kept)) {}
  absl::StatusOr<Artifact> build(const Kernel& kernel, const Target& target) const override {
    const auto it = kept_.find(hash(kernel));
    if (it != kept_.end()) return it->second;
    return builder_->build(kernel, target);
  }
  absl::StatusOr<std::string> text(const Kernel& kernel, const Target& target,
                                   std::string_view stage) const override {
    return builder_->text(kernel, target, stage);
  }
  std::string version() const override { return builder_->version(); }

 private:
  const Backend* builder_;
  std::map<uint64_t, Artifact> kept_;
};

std::map<uint64_t, Artifact> read_objects(const std::string& path) {
  std::map<uint64_t, Artifact> kept;
  const absl::StatusOr<std::string> bytes = read_file(path);
  if (!bytes.ok()) return kept;
  Reader reader(*bytes);
  for (uint64_t left = reader.get<uint64_t>(); left > 0 && reader.ok(); --left) {
    const uint64_t kernel_hash = reader.get<uint64_t>();
    absl::StatusOr<Artifact> artifact = parse_artifact(reader.get_string());
    if (artifact.ok()) kept[kernel_hash] = *std::move(artifact);
  }
  return kept;
}

}  // namespace

std::vector<DrawnProgram> draw_programs(const Task& task, const ProgramCounts& counts,
                                        uint64_t seed) {
  const std::vector<Sketch> space = make_space(task.start);
  Rng rng(seed);
  const auto draw = [&] {
    const int sketch = static_cast<int>(rng.below(static_cast<int64_t>(space.size())));
    return drafted(sketch, sample(task.start, space[sketch], rng));
  };
  std::vector<Drafted> best;
  for (int i = 0; i < kDrafts && counts.searched > 0; ++i) {
    absl::StatusOr<Drafted> one = draw();
    if (one.ok()) best.push_back(*std::move(one));
  }
  sort_by_draft(best);
  Chosen chosen;
  chosen.add_first(best, (counts.searched + 1) / 2, 's');
  const size_t parents = std::min<size_t>(best.size(), 8);
  std::vector<Drafted> children;
  for (int i = 0; i < kChildrenDrawn && parents > 0; ++i) {
    const Drafted& parent = best[rng.below(static_cast<int64_t>(parents))];
    absl::StatusOr<Drafted> child = drafted(
        parent.sketch, mutate(task.start, space[parent.sketch], parent.sample.trace, rng));
    if (child.ok()) children.push_back(*std::move(child));
  }
  sort_by_draft(children);
  chosen.add_first(children, counts.searched / 2, 's');
  int wanted = counts.uniform;
  for (int tries = kTriesEach * counts.uniform; tries > 0 && wanted > 0; --tries) {
    const absl::StatusOr<Drafted> one = draw();
    if (one.ok()) wanted -= chosen.add(*one, 'u');
  }
  return std::move(chosen.programs);
}

absl::StatusOr<std::vector<MeasuredProgram>> measure_programs(
    const std::vector<DrawnProgram>& programs, Measurer& measurer) {
  std::vector<TimesSeen> timed(programs.size());
  std::vector<size_t> asked;
  for (size_t i = 1; i < programs.size(); ++i) asked.push_back(i);
  if (programs.empty()) return std::vector<MeasuredProgram>();
  RETURN_IF_ERROR(time_some(programs, {0}, 0, measurer, timed));
  const double first_us = timed[0].samples.empty() ? 0 : estimate(timed[0].samples).median;
  for (int round = 0; round < kRounds; ++round) {
    RETURN_IF_ERROR(time_some(programs, asked, kRaced * first_us, measurer, timed));
    if (round == 0) asked.insert(asked.begin(), 0);
    std::erase_if(asked, [&](size_t i) { return timed[i].samples.size() < kFewSamples; });
  }
  std::vector<MeasuredProgram> measured;
  for (size_t i = 0; i < programs.size(); ++i) {
    if (!timed[i].failed && timed[i].samples.empty()) continue;
    MeasuredProgram program;
    program.trace = programs[i].trace;
    program.source = programs[i].source;
    if (!timed[i].failed) {
      const Estimate e = estimate(timed[i].samples);
      program.time_us = e.median, program.low_us = e.low, program.high_us = e.high;
      widen(program, timed[i].samples.size());
    }
    measured.push_back(std::move(program));
  }
  return measured;
}

std::string ObjectFolder::path(int task) const { return concat(folder_, "/", task, ".objects"); }

bool ObjectFolder::has(int task) const {
  return !folder_.empty() && std::filesystem::exists(path(task));
}

absl::Status ObjectFolder::build(int task, const Task& of,
                                 const std::vector<DrawnProgram>& programs) const {
  std::error_code ignored;
  std::filesystem::create_directories(folder_, ignored);
  Writer objects;
  uint64_t count = 0;
  for (const DrawnProgram& program : programs) {
    const absl::StatusOr<Artifact> artifact = of.backend->build(*program.kernel, *of.target);
    if (!artifact.ok()) continue;
    objects.put(hash(*program.kernel)).put_string(artifact_bytes(*artifact));
    ++count;
  }
  return replace_file(path(task), concat(Writer().put(count).bytes(), objects.bytes()));
}

std::unique_ptr<Backend> ObjectFolder::backend(int task, const Task& of) const {
  return std::make_unique<KeptObjects>(
      of.backend, folder_.empty() ? std::map<uint64_t, Artifact>() : read_objects(path(task)));
}

}  // namespace lw
