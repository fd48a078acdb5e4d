// tune(): the local loop around SearchRun and a Measurer.
//
// One batch is measured while the next is proposed, so builders and the measurer never wait; where
// measuring takes every processor, proposing and learning wait instead, or they would be measured
// too. Results are stored before they are counted, so that whatever was shown survives a crash.
// What fails through nobody's fault (a lost worker, a throttled clock) is tried again and is no
// trial. When several windows in a row gained next to nothing (has_stopped() in allocate.h), no
// trial is expected to be worth its time and the finalists come. A run that resumes was asked for
// more: it tries a window before what is stored may end it.
#include "src/base/check.h"
#include "src/search/allocate.h"
#include "src/search/local_loop.h"

namespace lw {

int usual_drafts() {
#ifdef LOOPWRIGHT_DRAFTS                   // what is sanitized drafts fewer (CMakeLists.txt)
  return LOOPWRIGHT_DRAFTS;
#else
  return 4000;
#endif
}

absl::StatusOr<TuneResult> tune(const Nest& start, const Key& key, Store& store, Measurer& measurer,
                                const SearchOptions& options, std::unique_ptr<Model> model,
                                const TuneHooks& hooks) {
  SearchOptions own = options;
  own.time_kind = measurer.time_kind();
  search::LocalLoop loop(start, key, store, own, std::move(model), hooks);
  WorkloadState seen;
  seen.time_kind = own.time_kind;
  loop.on_stored([&seen](const Measurement& m) { record(seen, m); });
  RETURN_IF_ERROR(loop.resume());
  seen.resumed = seen.trials;
  RETURN_IF_ERROR(loop.warm_start());
  while (!loop.run().done() && !options.stop.asked()) {
    if (has_stopped(seen, AllocateOptions())) loop.run().finish();
    RETURN_IF_ERROR(loop.step(measurer, loop.elapsed()));
  }
  if (options.stop.asked()) RETURN_IF_ERROR(loop.drain(measurer));
  return loop.result();
}

}  // namespace lw
