// Chains of rows, softmax or a norm: the last stage computes in its boxes what it needs of its rows,
// so that these are loaded once and what lies between never goes to DRAM. There are sketches with it
// and without: boxes hold rows whole, for which there may be no room.
#include "schedules/npu/vector.h"
#include "schedules/space/rule.h"

namespace lw::rules {
namespace {

// The last stage that the host alone needs; -1: there is none.
int last_needed(const Nest& nest, int host, const std::vector<bool>& tried) {
  for (int s = host; s-- > 0;) {
    const Stage& stage = nest.stages[s];
    const bool inside = stage.place == Place::kRoot && stage.copy_of < 0 &&
                        nest.program->tensors[stage.tensor].role != Role::kOutput;
    const std::optional<NpuProduct> product = inside ? product_of(nest, s) : std::nullopt;
    if (product && is_for_array(*product)) continue;
    if (inside && !tried[static_cast<size_t>(s)] &&
        readers(nest, stage.tensor) == std::vector<int>{host}) {
      return s;
    }
  }
  return -1;
}

// Maps between them disappear too. Returns whether a reduction is among what is inlined.
bool inline_rows(Draft& draft, int host) {
  bool any = false;
  std::vector<bool> tried(draft.nest.stages.size());
  for (int s; (s = last_needed(draft.nest, host, tried)) >= 0;) {
    tried[static_cast<size_t>(s)] = true;
    const std::string name = draft.nest.stages[s].name;
    const std::string host_name = draft.nest.stages[host].name;
    const bool map = is_map(draft.nest, s);
    Draft next = draft;
    if (map) fixed(next, "inline_producer", {name});
    else fixed(next, "inline_reduction", {name, host_name});
    if (next.failed || !vector_code(next.nest, host).ok()) continue;
    draft = std::move(next);
    any = any || !map;
  }
  return any;
}

void branch(Draft draft, std::vector<Draft>& drafts) {
  Draft rows = draft;
  bool any = false;
  for (int host = static_cast<int>(draft.nest.stages.size()) - 1; host >= 0; --host) {
    if (draft.nest.stages[host].place != Place::kRoot) continue;
    Draft next = rows;
    if (next.nest.stages[host].place != Place::kRoot || !inline_rows(next, host)) continue;
    rows = std::move(next);
    any = true;
  }
  if (any) {
    rows.name = rows.name.empty() ? "rows" : rows.name + ", rows";
    drafts.push_back(std::move(rows));
  }
  drafts.push_back(std::move(draft));
}

}  // namespace

const Rule& boxes() {
  static constexpr Rule rule = {"boxes", Phase::kMerge, branch, nullptr, nullptr, "npu"};
  return rule;
}

}  // namespace lw::rules
