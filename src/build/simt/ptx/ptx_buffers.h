// The buffers that an entry uses: its parameters, and where elements of them lie. Internal to
// src/build/simt/ptx.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "src/build/simt/program.h"
#include "src/build/simt/ptx/ptx_address.h"
#include "src/kernel/groups.h"

namespace lw {

class PtxBuffers {
 public:
  PtxBuffers(const Kernel& kernel, PtxCode* code, PtxAddresses* addresses)
      : kernel_(kernel), code_(*code), addresses_(*addresses), starts_(kernel.buffers.size()),
        clusters_(kernel) {}

  // Declares those of the body's buffers, and what it calls the places where these begin. `grid`: the
  // parallel loop whose body it is, or null.
  std::string parameters(const std::vector<Stmt>& body, const Stmt* grid,
                         SimtProgram::Launch* launch);
  // What of the body has no such parameters.
  const absl::Status& refused() const { return refused_; }
  // Declarations of what is each item's own.
  const std::string& own_memory() const { return own_memory_; }

  // What no launch's item writes while this one runs may be read by the way that is not coherent.
  std::string_view space_of(int b, bool loads) const;
  PtxPlace place(int b, const Affine& index);
  // The same, without what swizzling changes.
  PtxPlace linear_place(int b, const Affine& index);

  // Of a kBoxCopy.
  struct Box {
    std::string map;                       // its address
    int64_t bytes;                         // that come, of all slices
    PtxPlace place;                        // of the first
    int64_t slices;                        // each group of a cluster copies one for all; 1: whole
    int dim;                               // of the box, whose extent the slices share
  };
  Box box(const Stmt& copy);
  // Whether groups of a cluster copy for each other.
  bool shares() const { return shares_; }

 private:
  void find_used(const std::vector<Stmt>& list);
  void find_map(const Stmt& copy);
  std::string begin_own(int b);

  const Kernel& kernel_;
  PtxCode& code_;
  PtxAddresses& addresses_;
  std::vector<std::string> starts_;        // a register, or nothing
  std::set<int> used_, written_;           // in order
  std::vector<SimtProgram::Parameter> maps_;
  std::vector<std::string> map_starts_;
  struct Copied {
    size_t map = 0;                        // in maps_
    int64_t bytes = 0, slices = 1;
    int dim = 0;
  };
  absl::flat_hash_map<const Stmt*, Copied> copies_;  // by kBoxCopy
  ClusterValues clusters_;
  int64_t cluster_ = 1;
  bool shares_ = false;
  absl::Status refused_;
  std::string own_memory_;
};

}  // namespace lw
