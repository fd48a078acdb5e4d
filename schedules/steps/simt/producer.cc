// producer(C; 1)
//   before  C[..], by groups of 256      after  C[..], by groups of 256, with a producer
// A sub-group more than the items of C's groups copies the boxes that these read, in slots that take
// turns. It goes ahead of them: they wait for what they read, and not for each other. 0: there is none,
// the first of the items copies.
#include <algorithm>

#include "schedules/domains.h"
#include "schedules/legality.h"
#include "schedules/steps/simt/item_registers.h"
#include "schedules/targets/matrix_shape.h"
#include "schedules/targets/simt/simt_target.h"
#include "src/base/check.h"
#include "src/base/message.h"

namespace lw {
namespace {

absl::Status check_copies(const Nest& nest, int stage) {
  bool ahead = false;
  for (const Stage& copy : nest.stages) {
    if (copy.place != Place::kAt || copy.host != stage || copy.memory < 0) continue;
    if (!copy.boxed) return infeasible(concat("items copy ", copy.name));
    ahead = ahead || copy.slots > 1;
  }
  if (ahead) return absl::OkStatus();
  return infeasible(concat("no boxes of ", nest.stages[stage].name, " are copied ahead"));
}

absl::Status check_room(const Nest& nest, int stage) {
  const SimtTarget& target = simt(*nest.target);
  const int64_t items = nest.stages[stage].items + kMatrixItems;
  if (items > target.group_items) {
    return infeasible(concat("no group has ", items, " items, of ", target.group_items));
  }
  return check_group_registers(target, items, 4 * matrix_words(nest, stage));
}

absl::Status apply_producer(Nest& nest, const Step& step) {
  RETURN_IF_ERROR(expect(step, {1, 1, 1, 1}));
  if (step.numbers[0] < 0 || step.numbers[0] > 1) {
    return infeasible(concat(step.numbers[0], " producers"));
  }
  if (step.numbers[0] == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int stage, target_stage(nest, step));
  Stage& s = nest.stages[stage];
  if (s.producer) return infeasible(concat(s.name, " has a producer already"));
  RETURN_IF_ERROR(check_copies(nest, stage));
  RETURN_IF_ERROR(check_room(nest, stage));
  s.producer = true;
  return check_legal(nest, stage);
}

std::vector<Decision> producer_domain(const Nest& nest, const Step& step) {
  std::vector<Decision> domain = {{0}};
  if (applies(nest, step, {1})) domain.push_back({1});
  return domain;
}

}  // namespace

const StepKind& producer() {
  static constexpr StepKind kind = {"producer", 1, apply_producer, producer_domain, "simt"};
  return kind;
}

}  // namespace lw
