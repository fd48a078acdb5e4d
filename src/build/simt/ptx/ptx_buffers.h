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

namespace lw {

class PtxBuffers {
 public:
  PtxBuffers(const Kernel& kernel, PtxCode* code, PtxAddresses* addresses)
      : kernel_(kernel), code_(*code), addresses_(*addresses), starts_(kernel.buffers.size()) {}

  // Declares those of the body's buffers, and what it calls the places where these begin.
  std::string parameters(const std::vector<Stmt>& body, SimtProgram::Launch* launch);
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
    int64_t bytes;                         // that the copy brings
    PtxPlace place;
  };
  Box box(const Stmt& copy);

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
  absl::flat_hash_map<const Stmt*, size_t> map_of_;  // by kBoxCopy, in maps_
  absl::Status refused_;
  std::string own_memory_;
};

}  // namespace lw
