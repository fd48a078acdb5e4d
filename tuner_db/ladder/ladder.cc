#include "tuner_db/ladder/ladder.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "schedules/targets/family.h"
#include "schedules/targets/identity.h"
#include "src/base/check.h"

namespace lw {
namespace {

constexpr double kOtherMajor = 0.05;  // another major version of the code generator
constexpr int kSpare = 8;             // looked at beyond `count`: some may have no record
constexpr const char* kRungNames[] = {"exact", "loose", "nearest-shape", "nearest-target",
                                      "default"};

struct Near {
  double distance;
  Key key;
};

std::string_view word(std::string_view text, size_t number) {
  while (number-- > 0) {
    const size_t space = text.find(' ');
    if (space == std::string_view::npos) return "";
    text.remove_prefix(space + 1);
  }
  return text.substr(0, text.find(' '));
}

Key key_of(const StructureGroup& group, const std::string& workload) {
  return {workload, group.target, group.backend, group.threads, group.cache, group.objective};
}

bool same_question(const StructureGroup& group, const Key& key) {
  return group.cache == key.cache && group.objective == key.objective &&
         word(group.backend, 0) == word(key.backend, 0);
}

class Climb {
 public:
  Climb(const LookupRequest& request, const RecordSource& source, const LadderOptions& options)
      : request_(request), source_(source), options_(options) {}

  absl::StatusOr<std::vector<Match>> run() {
    if (wanted(Rung::kExact)) RETURN_IF_ERROR(take(Rung::kExact, {{0, request_.key}}, 1));
    if (!found_.empty()) return std::move(found_);
    RETURN_IF_ERROR(
        source_.with_structure(request_.structure,
                               [this](const StructureIndex& index) { list(index); }));
    RETURN_IF_ERROR(know_machines());
    if (wanted(Rung::kExact)) RETURN_IF_ERROR(take(Rung::kExact, exact_, 1));
    if (wanted(Rung::kLoose)) RETURN_IF_ERROR(take(Rung::kLoose, loose_, 1));
    if (wanted(Rung::kNearestShape)) {
      RETURN_IF_ERROR(take(Rung::kNearestShape, shapes_, options_.count));
      RETURN_IF_ERROR(prefer_measured());
    }
    if (wanted(Rung::kNearestTarget)) {
      RETURN_IF_ERROR(weigh_targets());
      RETURN_IF_ERROR(take(Rung::kNearestTarget, targets_, options_.count));
    }
    return std::move(found_);
  }

 private:
  bool wanted(Rung rung) const {
    return found_.empty() && options_.highest <= rung && rung <= options_.lowest;
  }

  // The keys of each rung, without reading a record; which machine a target is comes after.
  void list(const StructureIndex& structure) {
    const std::vector<int> positions = structure.dimensions.positions(request_.shape);
    for (const StructureGroup& group : structure.groups) {
      if (!same_question(group, request_.key)) continue;
      const bool same_threads = group.threads == request_.key.threads;
      const bool alike = same_generator(group.backend, request_.key.backend);
      const bool here = group.target == request_.key.target;
      const bool same_backend = group.backend == request_.key.backend;
      const bool asked_already = here && same_backend;
      if (same_threads && alike && !asked_already &&
          group.rows.contains(request_.key.workload)) {
        (same_backend ? exact_ : loose_).push_back({0, key_of(group, request_.key.workload)});
      }
      if (request_.shape.empty() || (!here && request_.target == nullptr)) continue;
      const double more =
          (alike ? 0 : kOtherMajor) + log_ratio(group.threads, request_.key.threads);
      for (const auto& [distance, row] :
           group.shapes.nearest(request_.shape, positions, options_.count + kSpare)) {
        if (distance + more > options_.max_distance) break;
        (same_threads ? shapes_ : targets_)
            .push_back({distance + more, key_of(group, group.workloads[row])});
      }
    }
    std::sort(loose_.begin(), loose_.end(),
              [](const Near& a, const Near& b) { return a.key.backend > b.key.backend; });
  }

  // A record may name this machine by a target that differs in its cores alone (one of an earlier
  // version, not yet opened for writing: identities.h). The shapes of other machines are for the
  // rung of targets.
  absl::Status know_machines() {
    for (std::vector<Near>* list : {&exact_, &loose_, &shapes_}) {
      std::vector<Near> ours;
      for (Near& near : *list) {
        ASSIGN_OR_RETURN(const bool here, is_this_machine(near.key.target));
        if (here) {
          ours.push_back(std::move(near));
        } else if (list == &shapes_) {
          targets_.push_back(std::move(near));
        }
      }
      *list = std::move(ours);
    }
    sort(shapes_);
    return absl::OkStatus();
  }

  absl::StatusOr<bool> is_this_machine(const std::string& target) {
    if (target == request_.key.target) return true;
    const auto [known, is_new] = machines_.emplace(target, nullptr);
    if (is_new) {
      absl::StatusOr<std::shared_ptr<const Target>> found = source_.target(target);
      if (!found.ok() && !absl::IsNotFound(found.status())) return found.status();
      if (found.ok()) known->second = *std::move(found);
    }
    return known->second != nullptr && target_id(*known->second) == request_.key.target;
  }

  bool is_of_this(const Near& near) const {
    return near.key.workload == request_.key.workload && near.key.threads == request_.key.threads;
  }

  void sort(std::vector<Near>& list) const {
    std::stable_sort(list.begin(), list.end(), [this](const Near& a, const Near& b) {
      return std::pair(!is_of_this(a), a.distance) < std::pair(!is_of_this(b), b.distance);
    });
  }

  // Other shapes whose times nobody measured give way to this shape, measured on another target.
  absl::Status prefer_measured() {
    if (found_.empty() || is_timed(found_.front().record->time_kind) ||
        options_.lowest < Rung::kNearestTarget) {
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(weigh_targets());
    std::vector<Near> of_this = targets_;
    std::erase_if(of_this, [this](const Near& near) { return !is_of_this(near); });
    std::vector<Match> shapes = std::exchange(found_, {});
    RETURN_IF_ERROR(take(Rung::kNearestTarget, of_this, options_.count));
    if (found_.empty() || !is_timed(found_.front().record->time_kind)) {
      found_ = std::move(shapes);
    }
    return absl::OkStatus();
  }

  // Adds the machines' distances; those whose code does not run on the asking one go.
  absl::Status weigh_targets() {
    absl::flat_hash_map<std::string, double> known;
    for (Near& near : targets_) {
      const auto [distance, is_new] = known.emplace(near.key.target, 0);
      if (is_new) {
        ASSIGN_OR_RETURN(const bool here, is_this_machine(near.key.target));
        const std::shared_ptr<const Target>& machine = machines_[near.key.target];
        const bool runs = here || (machine != nullptr &&
                                   missing_feature(*machine, *request_.target).empty());
        distance->second = !runs  ? HUGE_VAL
                           : here ? 0
                                  : target_distance(*machine, *request_.target);
      }
      near.distance += distance->second;
    }
    std::erase_if(targets_, [&](const Near& n) { return !(n.distance <= options_.max_distance); });
    sort(targets_);
    return absl::OkStatus();
  }

  absl::Status take(Rung rung, const std::vector<Near>& list, int count) {
    const auto kind = [this] { return found_.front().record->time_kind; };
    for (const Near& near : list) {
      const bool full = static_cast<int>(found_.size()) >= count;
      if (full && kind() == TimeKind::kMeasured) break;
      absl::StatusOr<std::shared_ptr<const ScheduleRecord>> record = source_.record(near.key);
      if (absl::IsNotFound(record.status())) continue;
      if (!record.ok()) return record.status();
      if (!found_.empty() && (*record)->time_kind < kind()) {
        found_.clear();
      } else if (full || (!found_.empty() && (*record)->time_kind > kind())) {
        continue;
      }
      const bool old =
          options_.now_ms > 0 && options_.now_ms - (*record)->unix_ms > options_.stale_after_ms;
      const bool other = near.key.backend != request_.key.backend;
      found_.push_back({rung, near.distance, old || other, *std::move(record)});
    }
    return absl::OkStatus();
  }

  const LookupRequest& request_;
  const RecordSource& source_;
  const LadderOptions& options_;
  std::vector<Near> exact_, loose_, shapes_, targets_;
  absl::flat_hash_map<std::string, std::shared_ptr<const Target>> machines_;  // null: unknown
  std::vector<Match> found_;
};

}  // namespace

std::string_view rung_name(Rung rung) { return kRungNames[static_cast<int>(rung)]; }

bool parse_rung(std::string_view name, Rung* rung) {
  for (int i = 0; i < 5; ++i) {
    if (name != kRungNames[i]) continue;
    *rung = static_cast<Rung>(i);
    return true;
  }
  return false;
}

bool same_generator(std::string_view a, std::string_view b) {
  const auto major = [](std::string_view text) {
    const std::string_view version = word(text, 1);
    return version.substr(0, version.find('.'));
  };
  return word(a, 0) == word(b, 0) && major(a) == major(b);
}

void StructureIndex::add(const Key& key, absl::Span<const int64_t> shape) {
  if (!dimensions.empty() && dimensions.rank() != shape.size()) return;
  StructureGroup* group = nullptr;
  for (StructureGroup& candidate : groups) {
    if (candidate.target == key.target && candidate.backend == key.backend &&
        candidate.threads == key.threads && candidate.cache == key.cache &&
        candidate.objective == key.objective) {
      group = &candidate;
    }
  }
  if (group == nullptr) {
    group = &groups.emplace_back();
    group->target = key.target;
    group->backend = key.backend;
    group->threads = key.threads;
    group->cache = key.cache;
    group->objective = key.objective;
  }
  if (!group->rows.emplace(key.workload, static_cast<int>(group->workloads.size())).second) return;
  dimensions.add(shape);
  group->shapes.add(shape);
  group->workloads.push_back(key.workload);
}

size_t StructureIndex::bytes() const {
  constexpr size_t kRow = 2 * (sizeof(std::string) + 80) + 16;  // two strings of 64 characters
  size_t total = 0;
  for (const StructureGroup& group : groups) {
    total += sizeof(StructureGroup) + group.shapes.bytes() + group.workloads.size() * kRow;
  }
  return total;
}

absl::StatusOr<std::vector<Match>> climb(const LookupRequest& request, const RecordSource& source,
                                         const LadderOptions& options) {
  return Climb(request, source, options).run();
}

}  // namespace lw
