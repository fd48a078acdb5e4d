#include "src/learn/gather.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "src/api/task.h"
#include "src/base/check.h"
#include "src/base/files.h"
#include "src/base/message.h"
#include "src/base/rng.h"
#include "src/lower/lower.h"
#include "src/measure/run/timing.h"
#include "src/measure/workers/workbench.h"
#include "src/search/search.h"

namespace lw {
namespace {

constexpr int kTriesEach = 6;              // draws a program that is wanted
constexpr int kRounds = 3;                 // apart in time: a disturbance spoils one
constexpr double kRaced = 3;               // times the first: the incumbent that all race against
constexpr double kPollSeconds = 1;
constexpr int kMostIdlePolls = 120;
constexpr int kFewSamples = 3, kSomeSamples = 6;
constexpr double kWideInterval = 0.05, kNarrowInterval = 0.02;  // relative, of so few samples

// Programs of different kernels. One that a search chose and that was drawn too counts as drawn:
// without what searches find the draws would be no sample of the space.
class Chosen {
 public:
  // Whether there is one more of the source.
  bool add(std::string trace, std::shared_ptr<const Kernel> kernel, double draft_us, char source) {
    const auto [known, fresh] = at_.try_emplace(hash(*kernel), programs.size());
    if (fresh) {
      programs.push_back({std::move(trace), source, std::move(kernel), draft_us});
      return true;
    }
    char& other = programs[known->second].source;
    const bool drawn_too = source == 'u' && other != 'u';
    if (drawn_too) other = 'u';
    return drawn_too;
  }

  std::vector<DrawnProgram> programs;

 private:
  std::map<uint64_t, size_t> at_;          // by the kernel's hash
};

// What a search that begins with `model` would measure first.
void add_searched(const Task& task, int count, uint64_t seed, std::unique_ptr<Model> model,
                  Chosen& chosen) {
  if (count == 0) return;
  SearchOptions options;
  options.seed = seed;
  Search search(task.start(), options, std::move(model));
  const auto add = [&](const Proposal& p) { chosen.add(p.text, p.kernel, p.draft_us, 's'); };
  const absl::StatusOr<Proposal> best = search.zero_trial();
  if (best.ok()) add(*best);
  for (const Proposal& next : search.propose(count - 1, options.trials)) add(next);
}

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
                                        uint64_t seed, std::unique_ptr<Model> guide) {
  CHECK(counts.guided == 0 || guide != nullptr);
  Rng rng(seed);
  Chosen chosen;
  add_searched(task, counts.searched, rng.next(), make_draft_model(), chosen);
  add_searched(task, counts.guided, rng.next(), std::move(guide), chosen);
  const std::vector<Sketch> space = make_space(task.start());
  int wanted = counts.uniform;
  for (int tries = kTriesEach * counts.uniform; tries > 0 && wanted > 0; --tries) {
    const Sketch& sketch = space[rng.below(static_cast<int64_t>(space.size()))];
    const absl::StatusOr<Sample> drawn = sample(task.start(), sketch, rng);
    if (!drawn.ok()) continue;
    const absl::StatusOr<Kernel> kernel = lower(drawn->nest);
    if (!kernel.ok()) continue;
    wanted -= chosen.add(to_text(drawn->trace), std::make_shared<const Kernel>(*kernel),
                         draft_us(drawn->nest), 'u');
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
  // Computed times are what they are.
  const bool exact = measurer.time_kind() == TimeKind::kSimulated;
  for (int round = 0; round < (exact ? 1 : kRounds); ++round) {
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
      if (!exact) widen(program, timed[i].samples.size());
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
  const std::unique_ptr<Backend> backend = this->backend(task, of);
  for (const DrawnProgram& program : programs) {
    const absl::StatusOr<Artifact> artifact = backend->build(*program.kernel, *of.target());
    if (!artifact.ok()) continue;
    objects.put(hash(*program.kernel)).put_string(artifact_bytes(*artifact));
    ++count;
  }
  return replace_file(path(task), concat(Writer().put(count).bytes(), objects.bytes()));
}

std::unique_ptr<Backend> ObjectFolder::backend(int task, const Task& of) const {
  return std::make_unique<KeptObjects>(
      &of.backend(), folder_.empty() ? std::map<uint64_t, Artifact>() : read_objects(path(task)));
}

}  // namespace lw
