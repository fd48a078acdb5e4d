#include "src/expr/work/points.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "src/base/rng.h"
#include "src/expr/scalar.h"

namespace lw {
namespace {

constexpr int kSamples = 1 << 15;
constexpr int kFewSamples = 1 << 8;        // once the budget is spent

int64_t evaluate(const Expr& e, const std::vector<int64_t>& axes) {
  switch (e->op) {
    case ExprOp::kConst: return e->integer;
    case ExprOp::kAxis: return axes[static_cast<size_t>(e->index)];
    case ExprOp::kSelect: return evaluate(e->args[evaluate(e->args[0], axes) ? 1 : 2], axes);
    case ExprOp::kCast: return wrap(e->type, evaluate(e->args[0], axes));
    default: break;
  }
  const Type type = e->args[0]->type;
  const int64_t a = evaluate(e->args[0], axes);
  if (e->args.size() == 1) return apply_int(e->op, type, a);
  return apply_int(e->op, type, a, evaluate(e->args[1], axes));
}

std::set<size_t> axes_of(const Expr& e) {
  std::set<size_t> axes;
  visit(e, [&](const ExprNode& n) {
    if (n.op == ExprOp::kAxis) axes.insert(static_cast<size_t>(n.index));
  });
  return axes;
}

int64_t count_unique(std::vector<int64_t>* values) {
  std::sort(values->begin(), values->end());
  values->erase(std::unique(values->begin(), values->end()), values->end());
  return static_cast<int64_t>(values->size());
}

}  // namespace

PointCounter::PointCounter(std::vector<Axis> axes, double* budget)
    : axes_(std::move(axes)), budget_(budget), at_(axes_.size()) {
  for (const Axis& axis : axes_) domain_ *= static_cast<double>(axis.extent);
}

std::vector<PointCounter::Group> PointCounter::groups(const Conditions& conditions,
                                                      const Address& address) const {
  std::vector<size_t> leader(axes_.size());
  for (size_t i = 0; i < leader.size(); ++i) leader[i] = i;
  const auto connect = [&](const std::set<size_t>& axes) {
    for (size_t axis : axes) {
      const size_t from = leader[axis], to = leader[*axes.begin()];
      std::replace(leader.begin(), leader.end(), from, to);
    }
    return axes.empty() ? std::optional<size_t>() : std::optional<size_t>(*axes.begin());
  };
  std::vector<std::optional<size_t>> of_test, of_index;
  for (const auto& [key, condition] : conditions)
    of_test.push_back(connect(axes_of(condition.test)));
  for (const Coordinate& c : address) of_index.push_back(connect(axes_of(c.index)));
  std::vector<Group> all;
  std::map<size_t, size_t> position;
  for (size_t i = 0; i < leader.size(); ++i) {
    const auto [at, added] = position.emplace(leader[i], all.size());
    if (added) all.emplace_back();
    all[at->second].axes.push_back(i);
  }
  size_t next = 0;
  for (const auto& [key, condition] : conditions) {
    if (const std::optional<size_t> axis = of_test[next++])
      all[position[leader[*axis]]].tests.push_back(&condition);
  }
  for (size_t c = 0; c < address.size(); ++c) {
    if (of_index[c]) all[position[leader[*of_index[c]]]].address.push_back(address[c]);
  }
  return all;
}

double PointCounter::size(const Group& group) const {
  double size = 1;
  for (size_t axis : group.axes) size *= static_cast<double>(axes_[axis].extent);
  return size;
}

bool PointCounter::passes(const Group& group) const {
  return std::all_of(group.tests.begin(), group.tests.end(), [&](const Condition* condition) {
    return (evaluate(condition->test, at_) != 0) == condition->holds;
  });
}

int64_t PointCounter::address_at(const Group& group) const {
  int64_t address = 0;
  for (const Coordinate& c : group.address) address += c.stride * evaluate(c.index, at_);
  return address;
}

template <class Visit>
void PointCounter::enumerate(const Group& group, const Visit& visit_point) {
  const double all = size(group);
  *budget_ -= all;
  for (size_t axis : group.axes) at_[axis] = 0;
  for (int64_t left = static_cast<int64_t>(all); left > 0; --left) {
    if (passes(group)) visit_point();
    for (size_t axis : group.axes) {
      if (++at_[axis] < axes_[axis].extent) break;
      at_[axis] = 0;
    }
  }
}

int PointCounter::take_samples() {
  const int samples = *budget_ > kSamples ? kSamples : kFewSamples;
  *budget_ -= samples;
  return samples;
}

double PointCounter::count_points(const Group& group) {
  const double all = size(group);
  if (group.tests.empty()) return all;
  double count = 0;
  if (all <= *budget_) {
    enumerate(group, [&] { ++count; });
    return count;
  }
  Rng rng(0);
  const int samples = take_samples();
  for (int i = 0; i < samples; ++i) {
    for (size_t axis : group.axes) at_[axis] = rng.below(axes_[axis].extent);
    count += passes(group);
  }
  return count / samples * all;
}

double PointCounter::count_places(const Group& group) {
  const double all = size(group);
  if (group.address.empty()) return 1;
  // Every axis an index of its own: one place a point.
  std::set<size_t> own;
  for (const Coordinate& c : group.address) {
    if (c.index->op == ExprOp::kAxis) own.insert(static_cast<size_t>(c.index->index));
  }
  if (own.size() == group.axes.size()) return count_points(group);
  std::vector<int64_t> places;
  if (all <= *budget_) {
    enumerate(group, [&] { places.push_back(address_at(group)); });
    return static_cast<double>(count_unique(&places));
  }
  // Of v random points that reach v - c places, about v^2 / 2c are reached; c is uncertain by its
  // root.
  Rng rng(0);
  std::vector<int64_t> points;
  double drawn = 0;
  const int samples = take_samples();
  for (int i = 0; i < samples; ++i) {
    int64_t point = 0;
    for (size_t axis : group.axes) {
      at_[axis] = rng.below(axes_[axis].extent);
      point = point * axes_[axis].extent + at_[axis];
    }
    if (!passes(group)) continue;
    ++drawn;
    points.push_back(point);
    places.push_back(address_at(group));
  }
  const double different = static_cast<double>(count_unique(&points));
  const double reached = static_cast<double>(count_unique(&places));
  if (reached < different / 2) return reached;
  const double met = different - reached;
  const double likely = different * different / (2 * (met + 2 * std::sqrt(met) + 1));
  return std::clamp(likely, reached, std::max(reached, drawn / samples * all));
}

double PointCounter::points(const Conditions& conditions) {
  std::string key;
  for (const auto& [text, condition] : conditions) key += text + "\n";
  const auto known = known_.find(key);
  if (known != known_.end()) return known->second;
  double total = 1;
  for (const Group& group : groups(conditions, {})) total *= count_points(group);
  return known_[key] = total;
}

double PointCounter::places(const Conditions& conditions, const Address& address) {
  double total = 1;
  for (const Group& group : groups(conditions, address)) {
    if (group.address.empty() && group.tests.empty()) continue;
    total *= group.address.empty() ? std::min(1.0, count_points(group)) : count_places(group);
  }
  return total;
}

std::optional<std::vector<std::vector<int64_t>>> PointCounter::addresses(
    const Conditions& conditions, const Address& address) {
  std::vector<std::vector<int64_t>> all;
  int64_t fixed = 0;                       // of indices that no axis moves
  for (const Coordinate& c : address) {
    if (axes_of(c.index).empty()) fixed += c.stride * evaluate(c.index, at_);
  }
  all.push_back({fixed});
  for (const Group& group : groups(conditions, address)) {
    if (group.address.empty() && group.tests.empty()) continue;
    if (size(group) > *budget_) return std::nullopt;
    std::vector<int64_t> some;
    enumerate(group, [&] { some.push_back(address_at(group)); });
    count_unique(&some);
    all.push_back(std::move(some));
  }
  return all;
}

}  // namespace lw
