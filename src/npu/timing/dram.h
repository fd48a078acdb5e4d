// DRAM and the way to it, asked chunk by chunk: bytes that lie in one page of one bank. O(1) each.
// The caller asks in the order in which requests are made, LD's and ST's mixed.
//
// Of an address, low to high: offset | channel | rest of the page's columns | pseudo channel | bank
// group | bank | row ("RoBaRaCoCh"); `hash` mixes the bits above into the channel. A chunk, with
// times as in datasheets (JESD79-4 DDR4, JESD235 HBM2), each stretched by 1 + tRFC/tREFI, the share
// of time that refreshes take:
//
//   enter   = max(ready, port of the channel); the port moves port_bytes a core cycle
//   act     = row open ? none : max(enter, precharge possible + tRP, 4th-last activate + tFAW)
//   access  = max(act + tRCD, data bus, bank group, command bus)
//   precharge possible = max(act + tRAS, last access + tRTP)
//   done    = max(last access + tCCD_L + tCL, port free, command bus free) + noc_lat
//
// A bank group is taken for beats . tCCD_L from `access`. Buses are taken from when a chunk enters,
// not from its access: a controller that serves row hits first (FR-FCFS) fills the gaps that one
// bank's activates leave with other banks' accesses, as far as the window of requests lets them
// enter. The command bus carries a command each access and two more each activate (tCMD a command;
// HBM's pseudo channels share it).
//
// Not modelled: turning the bus between reads and writes, tRRD, tWR, power-down, refresh as an
// event. Not thread-safe; as many as are wanted.
#pragma once

#include <array>
#include <vector>

#include "src/npu/config.h"
#include "src/npu/timing/ticks.h"

namespace lw::npu {

class Dram {
 public:
  explicit Dram(const Config& config);

  // What a chunk's bytes may not cross.
  int64_t chunk_bytes() const { return chunk_bytes_; }

  struct Access {
    Ticks done;                            // the last byte has arrived
    Ticks waited;                          // for ports and buses, beyond the bank's own time
  };
  // REQUIRES: bytes > 0, in one chunk; `ready` no earlier than what was asked before by any engine.
  Access access(uint64_t address, int64_t bytes, Ticks ready);

  int64_t row_hits() const { return row_hits_; }
  int64_t activates() const { return activates_; }
  int64_t bytes() const { return beats_ * config_.dram.beat; }   // in whole beats

 private:
  struct Bank {
    int64_t row = -1;
    Ticks act = 0, precharge = -kNever;
  };
  struct Pseudo {
    Ticks bus = 0;
    std::array<Ticks, 4> acts = {-kNever, -kNever, -kNever, -kNever};
    int oldest = 0;
  };
  struct Channel {
    Ticks port = 0, commands = 0;
  };

  Access paged(uint64_t address, int64_t beats, Ticks ready);

  const Config config_;
  int64_t chunk_bytes_;
  int beat_bits_, interleave_bits_, channel_bits_;
  int page_bits_, pseudo_bits_, group_bits_, bank_bits_;
  Rate port_, ccd_, ccd_long_, command_;
  Ticks rcd_, rp_, ras_, rtp_, faw_, cl_, latency_;
  std::vector<Channel> channels_;
  std::vector<Pseudo> pseudos_;
  std::vector<Ticks> groups_;
  std::vector<Bank> banks_;
  int64_t row_hits_ = 0, activates_ = 0, beats_ = 0;
};

// The chunks of a strided copy, in the order of its runs; runs that touch are one. Pure.
class Chunks {
 public:
  struct Chunk {
    uint64_t address;
    int64_t bytes;
  };
  Chunks() = default;
  Chunks(uint64_t address, int64_t n0, int64_t n1, int64_t n2, int64_t stride1, int64_t stride2,
         int64_t chunk_bytes);
  bool empty() const { return left2_ == 0; }
  // REQUIRES: !empty().
  Chunk next() {
    const int64_t room = mask_ + 1 - static_cast<int64_t>(at_ & mask_);
    const Chunk chunk = {at_, room < left0_ ? room : left0_};
    at_ += chunk.bytes;
    left0_ -= chunk.bytes;
    if (left0_ == 0) next_run();
    return chunk;
  }

 private:
  void next_run();

  uint64_t at_ = 0, line_ = 0;
  int64_t n0_ = 0, n1_ = 0, stride1_ = 0, stride2_ = 0, mask_ = 0;
  int64_t left0_ = 0, left1_ = 0, left2_ = 0;
  uint64_t run_ = 0;
};

}  // namespace lw::npu
