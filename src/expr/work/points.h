// Counting the points of a definition's domain: how many satisfy conditions on the axes, and how
// many different places they reach.
//
// Conditions and indices mention few axes each, so the domain falls apart into groups of axes that
// no condition and no index connects (y and r, x and s of a convolution); each group is counted by
// enumeration and the counts are multiplied. A group too large to enumerate is sampled, which errs
// towards less. Deterministic; values, one thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/expr/expr.h"

namespace lw {

// A test of axes and integers alone.
struct Condition {
  Expr test;
  bool holds = true;
};
using Conditions = std::map<std::string, Condition>;  // equal conditions have equal keys

// One index of a place: the place's address is the sum of stride * value. REQUIRES of the indices
// of one place: made of axes and integers alone, and no two values of them share an address.
struct Coordinate {
  Expr index;
  int64_t stride = 1;
};
using Address = std::vector<Coordinate>;

class PointCounter {
 public:
  // `budget`: points that may still be enumerated, shared by the counters of a program.
  PointCounter(std::vector<Axis> axes, double* budget);

  double domain() const { return domain_; }
  int64_t extent(int axis) const { return axes_[static_cast<size_t>(axis)].extent; }
  // Points of the domain that satisfy all conditions.
  double points(const Conditions& conditions);
  // Different places that these reach.
  double places(const Conditions& conditions, const Address& address);
  // Their addresses: one list per group, every sum of one of each is an address. Nothing where that
  // takes more than the budget.
  std::optional<std::vector<std::vector<int64_t>>> addresses(const Conditions& conditions,
                                                             const Address& address);

 private:
  struct Group {
    std::vector<size_t> axes;
    std::vector<const Condition*> tests;
    Address address;
  };
  std::vector<Group> groups(const Conditions& conditions, const Address& address) const;
  double size(const Group& group) const;
  int take_samples();                      // how many points to sample
  double count_points(const Group& group);
  double count_places(const Group& group);
  // Calls visit() at each point of the group that passes its tests; within the budget only.
  template <class Visit>
  void enumerate(const Group& group, const Visit& visit_point);
  bool passes(const Group& group) const;
  int64_t address_at(const Group& group) const;

  std::vector<Axis> axes_;
  double* budget_;
  double domain_ = 1;
  std::vector<int64_t> at_;                // the point, by axis
  std::map<std::string, double> known_;    // points of conditions
};

}  // namespace lw
