#include "src/npu/timing/dram.h"

#include <algorithm>
#include <bit>

#include "src/base/check.h"

namespace lw::npu {
namespace {

int bits_of(int64_t power) { return std::countr_zero(static_cast<uint64_t>(power)); }

}  // namespace

Dram::Dram(const Config& config) : config_(config) {
  const DramConfig& d = config.dram;
  const DmaConfig& dma = config.dma;
  CHECK(std::has_single_bit(static_cast<uint64_t>(dma.interleave)));
  chunk_bytes_ = d.kind == DramKind::kPaged ? std::min(d.page, dma.interleave) : dma.interleave;
  beat_bits_ = bits_of(d.beat);
  interleave_bits_ = bits_of(dma.interleave);
  channel_bits_ = bits_of(d.channels);
  page_bits_ = bits_of(d.page);
  pseudo_bits_ = bits_of(d.pseudo);
  group_bits_ = bits_of(d.groups);
  bank_bits_ = bits_of(d.banks);
  const double cycle = config.clock_mhz / d.clock_mhz * (1 + d.rfc / d.refi);
  port_ = Rate(d.beat / (d.kind == DramKind::kFlat ? d.bytes_per_cycle : dma.port_bytes));
  ccd_ = Rate(d.ccd * cycle);
  ccd_long_ = Rate(d.ccd_long * cycle);
  command_ = Rate(d.command * cycle);
  rcd_ = from_cycles(d.rcd * cycle);
  rp_ = from_cycles(d.rp * cycle);
  ras_ = from_cycles(d.ras * cycle);
  rtp_ = from_cycles(d.rtp * cycle);
  faw_ = from_cycles(d.faw * cycle);
  cl_ = from_cycles(d.cl * cycle);
  latency_ = from_cycles(dma.latency);
  channels_.resize(d.channels);
  pseudos_.resize(d.channels * d.pseudo);
  groups_.resize(d.channels * d.pseudo * d.groups);
  banks_.resize(d.channels * d.pseudo * d.banks);
}

Dram::Access Dram::access(uint64_t address, int64_t bytes, Ticks ready) {
  const int64_t beats = static_cast<int64_t>(((address + bytes - 1) >> beat_bits_) -
                                             (address >> beat_bits_)) + 1;
  beats_ += beats;
  switch (config_.dram.kind) {
    case DramKind::kIdeal:
      return {ready, 0};
    case DramKind::kFlat: {
      Ticks& port = channels_[0].port;
      const Ticks enter = std::max(ready, port);
      port = enter + port_.times(beats);
      return {port + latency_, enter - ready};
    }
    case DramKind::kPaged:
      return paged(address, beats, ready);
  }
  CHECK(false);
  return {};
}

Dram::Access Dram::paged(uint64_t address, int64_t beats, Ticks ready) {
  const uint64_t unit = address >> interleave_bits_;
  uint64_t folded = unit;
  if (config_.dram.hash == ChannelHash::kXor && channel_bits_ > 0) {
    for (uint64_t rest = unit >> channel_bits_; rest != 0; rest >>= channel_bits_) folded ^= rest;
  }
  const uint64_t channel = folded & ((uint64_t{1} << channel_bits_) - 1);
  const uint64_t own = (unit >> channel_bits_ << interleave_bits_) |
                       (address & ((uint64_t{1} << interleave_bits_) - 1));
  uint64_t page = own >> page_bits_;
  const uint64_t pseudo = channel << pseudo_bits_ | (page & ((uint64_t{1} << pseudo_bits_) - 1));
  page >>= pseudo_bits_;
  const uint64_t group = pseudo << group_bits_ | (page & ((uint64_t{1} << group_bits_) - 1));
  Bank& bank = banks_[pseudo << bank_bits_ | (page & ((uint64_t{1} << bank_bits_) - 1))];
  const int64_t row = static_cast<int64_t>(page >> bank_bits_);
  Channel& way = channels_[channel];
  Pseudo& half = pseudos_[pseudo];

  const Ticks enter = std::max(ready, way.port);
  way.port = enter + port_.times(beats);
  Ticks possible = enter;
  int64_t commands = beats;
  if (bank.row == row) {
    ++row_hits_;
    possible = std::max(possible, bank.act + rcd_);
  } else {
    ++activates_;
    commands += 2;
    Ticks& fourth = half.acts[half.oldest];
    bank.act = std::max({enter, bank.precharge + rp_, fourth + faw_});
    fourth = bank.act;
    half.oldest = (half.oldest + 1) & 3;
    bank.row = row;
    possible = bank.act + rcd_;
  }
  const Ticks first = std::max({possible, half.bus, groups_[group], way.commands});
  half.bus = std::max(half.bus, enter) + ccd_.times(beats);
  way.commands = std::max(way.commands, enter) + command_.times(commands);
  groups_[group] = first + ccd_long_.times(beats);
  const Ticks last = first + ccd_long_.times(beats - 1);
  bank.precharge = std::max(bank.act + ras_, last + rtp_);
  const Ticks data = std::max({last + ccd_long_.times(1) + cl_, way.port, way.commands});
  return {data + latency_, enter - ready + first - possible};
}

Chunks::Chunks(uint64_t address, int64_t n0, int64_t n1, int64_t n2, int64_t stride1,
               int64_t stride2, int64_t chunk_bytes) {
  if (n1 > 1 && stride1 == n0) {
    n0 *= n1;
    n1 = 1;
  }
  if (n1 == 1) {
    n1 = n2;
    stride1 = stride2;
    n2 = 1;
    if (n1 > 1 && stride1 == n0) {
      n0 *= n1;
      n1 = 1;
    }
  }
  at_ = run_ = line_ = address;
  n0_ = left0_ = n0;
  n1_ = left1_ = n1;
  left2_ = n2;
  stride1_ = stride1;
  stride2_ = stride2;
  mask_ = chunk_bytes - 1;
}

void Chunks::next_run() {
  left0_ = n0_;
  if (--left1_ > 0) {
    run_ += stride1_;
  } else {
    left1_ = n1_;
    --left2_;
    line_ += stride2_;
    run_ = line_;
  }
  at_ = run_;
}

}  // namespace lw::npu
