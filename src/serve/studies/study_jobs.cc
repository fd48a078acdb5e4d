#include "src/serve/studies/study_jobs.h"

#include <algorithm>

#include "tuner_db/messages/messages.h"

namespace lw {
namespace {

namespace v1 = loopwright::v1;

constexpr int64_t kJobTimeoutS = 600;
constexpr double kMost = 1e6;              // candidates of a job

// Candidates of the workload that a slice has room for; one at a time until the first is measured.
int64_t most_of(const StudyWorkloadRow& workload, double slice_s) {
  if (workload.measured == 0) return 1;
  const double most = slice_s * static_cast<double>(workload.measured) / workload.measured_s;
  return static_cast<int64_t>(std::clamp(most, 1.0, kMost));
}

}  // namespace

std::vector<JobRow> jobs_of(const StudyRow& study, const StudyWorkloadRow& workload,
                            const Target& target, const Batch& batch, double slice_s,
                            int64_t now_ms) {
  JobRow job;
  job.study = study.id;
  job.position = workload.position;
  job.client = study.client;
  job.target = study.device_target;
  job.backend = workload.backend;
  job.priority = study.priority;
  job.created_ms = now_ms;
  const bool compared = batch.kind == BatchKind::kFinalists;
  v1::Job& payload = job.payload;
  payload.set_kind(compared ? v1::JOB_KIND_COMPARE : v1::JOB_KIND_MEASURE);
  payload.set_program(study.spec.workloads(workload.position).program());
  payload.set_workload_id(workload.workload);
  *payload.mutable_target() = to_proto(target);
  payload.set_threads(workload.threads);
  payload.set_cache(workload.cache);
  payload.set_seed(study.spec.seed());
  payload.set_rounds(batch.rounds);
  payload.mutable_timeout()->set_seconds(kJobTimeoutS);
  const int64_t count = static_cast<int64_t>(batch.proposals.size());
  const int64_t most = compared ? count : std::min(count, most_of(workload, slice_s));
  const int64_t parts = (count + most - 1) / most;
  std::vector<JobRow> jobs;
  for (int64_t part = 0; part < parts; ++part) {
    JobRow& one = jobs.emplace_back(job);
    for (int64_t i = count * part / parts; i < count * (part + 1) / parts; ++i) {
      const Proposal& proposal = batch.proposals[i];
      v1::CandidateSpec& candidate = *one.payload.add_candidates();
      candidate.set_index(one.candidates++);
      candidate.set_trace(proposal.text);
      candidate.set_incumbent_us(batch.incumbent_us);
      candidate.set_verify(batch.verify);
      one.sources.emplace_back(origin_name(proposal.origin));
    }
  }
  return jobs;
}

}  // namespace lw
