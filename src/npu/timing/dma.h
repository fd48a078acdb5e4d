// A DMA engine: descriptors that it has taken, and the requests it makes of them, in order. Not
// thread-safe.
#pragma once

#include <algorithm>
#include <vector>

#include "src/npu/isa/isa.h"
#include "src/npu/timing/dram.h"

namespace lw::npu {

class Dma {
 public:
  Dma(int64_t in_flight, const DmaConfig& config)
      : setup_(from_cycles(config.setup)), taken_(in_flight), answered_(config.window) {}

  // When it can take one more descriptor; kNever: not before one that is at work is done.
  Ticks ready() const {
    return at_work_ < taken_.size() ? taken_[next_].retired : kNever;
  }
  // REQUIRES: start >= ready().
  void take(uint32_t instruction, const Copy& copy, int64_t chunk_bytes, Ticks start) {
    Descriptor& one = taken_[next_];
    if (++next_ == taken_.size()) next_ = 0;
    one = {instruction, start, one.retired,
           Chunks(copy.dram, copy.n0, copy.n1, copy.n2, copy.dstr1, copy.dstr2, chunk_bytes)};
    if (++at_work_ == 1) plan();
  }

  // The time of its next request; kNever: it has none to make.
  Ticks request() const { return request_; }
  // Makes it. True: it was its descriptor's last; see `finished`. REQUIRES: request() < kNever.
  bool step(Dram* dram) {
    Descriptor& one = taken_[first_];
    const Chunks::Chunk chunk = one.chunks.next();
    const Dram::Access access = dram->access(chunk.address, chunk.bytes, request_);
    answered_[oldest_] = access.done;
    if (++oldest_ == answered_.size()) oldest_ = 0;
    ++chunks;
    waited += access.waited;
    if (access.done > arrived_) arrived_ = access.done;
    last_request_ = request_;
    if (!one.chunks.empty()) {
      request_ = std::max(last_request_, answered_[oldest_]);
      return false;
    }
    // Done in order, although the bytes of a later one may arrive before: a token could not say
    // whose bytes are there otherwise.
    if (arrived_ > retired_) retired_ = arrived_;
    finished = {one.instruction, one.start, retired_};
    one.retired = retired_;
    arrived_ = 0;
    if (++first_ == taken_.size()) first_ = 0;
    --at_work_;
    plan();
    return true;
  }
  bool idle() const { return at_work_ == 0; }

  struct Finished {
    uint32_t instruction;
    Ticks start, done;
  };
  Finished finished = {};
  int64_t chunks = 0;
  Ticks waited = 0;                        // of all chunks, for ports and buses

 private:
  struct Descriptor {
    uint32_t instruction = 0;
    Ticks start = 0;
    Ticks retired = 0;                     // when the one that had this place before left
    Chunks chunks;
  };
  void plan() {
    request_ = idle() ? kNever
                      : std::max({taken_[first_].start + setup_, last_request_, answered_[oldest_]});
  }

  const Ticks setup_;
  std::vector<Descriptor> taken_;          // a ring
  std::vector<Ticks> answered_;            // a ring: when the latest `window` requests were
  size_t oldest_ = 0;
  size_t first_ = 0, next_ = 0, at_work_ = 0;  // of `taken_`
  Ticks request_ = kNever, last_request_ = 0, arrived_ = 0, retired_ = 0;
};

}  // namespace lw::npu
