// Sets of copies of boxes (Op::kBoxCopy) that are on their way: in the order in which they are
// committed they take turns in a ring of mbarriers (PTX ISA, 9.7.13.15), in which the first item
// arrives at a set's end, and on which all items wait where it is to have landed. Internal to
// src/build/simt/ptx.
#pragma once

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "src/build/simt/ptx/ptx_buffers.h"
#include "src/build/simt/ptx/ptx_code.h"
#include "src/kernel/kernel.h"

namespace lw {

class PtxSets {
 public:
  explicit PtxSets(PtxCode* code) : code_(*code) {}

  // Whether an entry's body copies boxes: else nothing else is to be called. Counts how many sets may
  // be on their way.
  bool find(const std::vector<Stmt>& body);
  // Whether that is known, and not too many.
  bool counted() const { return most_ <= kMostOnTheirWay; }
  int64_t bytes() const { return 8 * ring_; }  // of the ring, in the group's memory

  // The ring lies there, from a multiple of 8 on. `cluster`: other groups copy into this one's memory.
  void begin(const std::string& ring, bool cluster);
  // Of the group's items, or of all of the cluster's.
  void meet();
  // Of the set that is open. `coordinates`: where the box begins, by dimension.
  void copy(const PtxBuffers::Box& box, const Block& block, std::vector<std::string> coordinates);
  void commit();
  // Until the sets that the statement covers have landed.
  void wait(const Stmt& landed);

 private:
  // How many sets may be on their way after the list, of those before.
  int64_t flow(const std::vector<Stmt>& list, int64_t sets);
  void find_open();
  std::string with_rank(const std::string& a, int64_t factor);

  PtxCode& code_;
  absl::flat_hash_map<const Stmt*, int64_t> before_;  // of each kLanded: sets on their way, at most
  int64_t most_ = 0, ring_ = 1;
  bool cluster_ = false;
  // Registers: the ring, whether an item is the group's first, sets that are committed, the mbarrier
  // of the one that is open, the group's number in its cluster.
  std::string start_, first_, count_, open_, rank_;
};

}  // namespace lw
