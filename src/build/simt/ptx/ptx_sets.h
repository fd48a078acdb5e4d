// Sets of copies of boxes (Op::kBoxCopy) that are on their way: in the order in which they are
// committed they take turns in a ring of mbarriers (PTX ISA, 9.7.13.15), in which the first item
// arrives at a set's end, and on which all items wait where it is to have landed. Internal to
// src/build/simt/ptx.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "src/build/simt/ptx/ptx_buffers.h"
#include "src/build/simt/ptx/ptx_code.h"
#include "src/kernel/kernel.h"

namespace lw {

// Where a producer copies, each of whose texts is another: it goes where items go, and does nothing but
// to commit sets. At a kLanded it then waits until all items have come there, by an mbarrier of another
// ring, and they only for the copies: not for each other, unless they have stored something since they
// last met.
class PtxSets {
 public:
  explicit PtxSets(PtxCode* code) : code_(*code) {}

  // Whether an entry's body copies boxes: else nothing else is to be called. Counts how many sets may
  // be on their way. `shared`: whether others see what is stored to a buffer.
  using Shared = std::function<bool(int buffer)>;
  bool find(const std::vector<Stmt>& body, bool producer, const Shared& shared);
  // Whether that is known, and not too many.
  bool counted() const { return most_ <= kMostOnTheirWay; }
  int64_t bytes() const { return 8 * (ring_ + meetings_); }  // of the rings, in the group's memory

  // The rings lie there, from a multiple of 8 on. `cluster`: so many groups copy into each other's
  // memory; 1: none does.
  void begin(const std::string& rings, int64_t items, int64_t cluster);
  // From here on: what of both does.
  enum class Role : uint8_t { kBoth, kItems, kProducer };
  void become(Role role) { role_ = role; }
  Role role() const { return role_; }
  // A flag: whether who asks is of the producer.
  std::string produces();
  // Of all of the group, or of all of the cluster.
  void meet();
  // Of the set that is open. `coordinates`: where the box begins, by dimension.
  void copy(const PtxBuffers::Box& box, const Block& block, std::vector<std::string> coordinates);
  void commit();
  // The sets that the statement covers have landed, and all who are to meet there have.
  void landed(const Stmt& landed);

 private:
  // What may be at a place of the text.
  struct Flow {
    int64_t waited = 0;                    // sets on their way, of those that items know of
    int64_t begun = 0;                     // of those that a producer may have begun
    bool committed = true;                 // a set, since the last kLanded
    bool stored = false;                   // by items, since they last met
    bool operator==(const Flow&) const = default;
  };
  Flow flow(const std::vector<Stmt>& list, Flow now, const Shared& shared);
  void land(const Stmt& landed, Flow* now);

  // An mbarrier's place and the parity of its phase, of the number in its ring.
  struct Phase {
    std::string at, parity;
  };
  Phase phase(const std::string& number, const std::string& ring, int64_t size);
  void wait_for(const Phase& phase, std::string_view order);
  void wait(const Stmt& landed);
  void arrive();
  void find_open();
  std::string with_rank(const std::string& a, int64_t factor);

  PtxCode& code_;
  bool producer_ = false;
  Role role_ = Role::kBoth;
  absl::flat_hash_map<const Stmt*, int64_t> before_;  // of each kLanded: sets on their way, at most
  absl::flat_hash_set<const Stmt*> all_meet_, items_meet_;  // kLanded
  int64_t most_ = 0, ring_ = 1, meetings_ = 0, items_ = 0, cluster_ = 1;
  // Registers: the rings, whether an item is the one that copies, sets that are committed, the
  // mbarrier of the one that is open, the group's number in its cluster; of kLanded, the number, and,
  // where an item is to arrive for its sub-group, whether it is and where the ring lies for it.
  std::string start_, first_, count_, open_, rank_, met_, arrives_, arrivals_;
};

}  // namespace lw
