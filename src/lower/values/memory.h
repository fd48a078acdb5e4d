// Loads and stores of one straight-line block, at places that are known. Internal to src/lower.
#pragma once

#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "src/lower/values/addressing.h"

namespace lw::lowering {

class Memory {
 public:
  // `stage`: whose copies serve reads, and whose prefetches apply, along the loops of `vars`, the
  // innermost last (none: nothing is prefetched).
  Memory(Emitter& e, int stage, std::vector<int> vars)
      : e_(e), stage_(e.nest.stages[stage]), vars_(std::move(vars)), addressing_(e) {}
  Emitter& emitter() const { return e_; }
  Addressing& addressing() { return addressing_; }
  Registers& registers() { return addressing_.registers(); }

  const Stage& stage() const { return stage_; }
  const Storage& storage_of(int tensor) const;  // where reads of it find it
  Type type_of(int buffer) const { return e_.kernel.buffers[buffer].type; }

  // Whether loads keep 16-bit floats as they are.
  void keep_raw(bool raw) { raw_ = raw; }
  // `mask`: -1 for all lanes.
  Value load(int buffer, const Index& address, int lanes, int mask);
  // Points whose indices differ may share an element, such as the channels of one group.
  Value load_scalar(int buffer, const Index& address);
  // The tensor's element at indices within the box; where the point does not exist, some other.
  Value load_element(const Storage& storage, int tensor, std::vector<Index> local,
                     const Point& point);
  // Where all `needs` are >= 0 from one address, elsewhere from the other.
  Value load_either(int buffer, const std::vector<Affine>& needs, const Index& then,
                    const Index& otherwise, int lanes, int mask);
  // Asks for what the same read will need `distance` iterations of a loop later, once per cache
  // line.
  void prefetch(int tensor, int buffer, const Index& address);

  // The indices of the point itself within the box.
  std::vector<Index> localized(const Storage& storage, const Point& point) const;
  void store(const Storage& storage, const Point& point, Value value, bool non_temporal);
  // Stores the points' vectors, where their places follow each other for each lane; else false.
  bool store_group(const Storage& storage, absl::Span<const Point> points,
                   const std::vector<Value>& values);

 private:
  Stmt load_statement(int buffer, const Index& address, int lanes, int mask);  // into no register
  Value loaded(Value value);               // as loads give it
  void store_scalar(Stmt store, const Point& point);

  struct Scalar {
    int buffer = -1;
    bool raw = false;
    Affine address;
    Value value;
  };
  Emitter& e_;
  const Stage& stage_;
  std::vector<int> vars_;
  Addressing addressing_;
  std::vector<Scalar> scalars_;            // loaded so far
  std::vector<std::pair<int, Affine>> prefetched_;
  bool raw_ = false;
};

// How far apart the places are; 0 where not evenly, or lanes move otherwise.
int64_t even_step(const std::vector<Index>& places);

}  // namespace lw::lowering
