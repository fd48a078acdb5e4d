// Copies of boxes of tensors, and of plain bytes, by the engine beside the threads: loads land at
// an mbarrier when no warp can run any more, stores read and write when they are waited for.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/base/message.h"
#include "src/build/simt/ptx/interpreter/interpret.h"
#include "src/build/simt/ptx/interpreter/interpret_code.h"
#include "src/build/simt/ptx/interpreter/interpret_decode.h"
#include "src/build/simt/ptx/interpreter/interpret_lanes.h"
#include "src/build/simt/ptx/interpreter/interpret_machine.h"

namespace lw {

int64_t ptx_tensor_element_bytes(const PtxTensorMap& map) {
  constexpr int kBytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
  return map.type < 13 ? kBytes[map.type] : 0;
}

absl::StatusOr<std::string> encode_tensor_map(const PtxTensorMap& map) {
  const auto bad = [](std::string_view what) {
    return absl::InvalidArgumentError(concat("tensor map: ", what));
  };
  const int64_t size = ptx_tensor_element_bytes(map);
  if (map.magic != PtxTensorMap::kMagic || size == 0) return bad("the type is none");
  if (map.rank < 1 || map.rank > 5) return bad("the rank is not 1 to 5");
  if (map.swizzle > 3) return bad("the swizzle is none");
  if (map.address % 16 != 0) return bad("the address is no multiple of 16");
  if (map.nan_fill != 0 && map.type < 6) return bad("integers are not filled with NaN");
  for (int i = 0; i < map.rank; ++i) {
    if (map.dims[i] < 1 || map.dims[i] > uint64_t{1} << 32)
      return bad("a dimension is out of range");
    if (map.box[i] < 1 || map.box[i] > 256) return bad("a box has 1 to 256 elements each way");
    if (map.element_strides[i] != 1) return bad("element strides other than 1 are not known");
    if (i == 0) continue;
    const uint64_t stride = map.strides[i - 1];
    if (stride % 16 != 0 || stride >= uint64_t{1} << 40)
      return bad("a stride is no multiple of 16");
    const uint64_t below =
        i == 1 ? map.dims[0] * static_cast<uint64_t>(size) : map.dims[i - 1] * map.strides[i - 2];
    if (stride < below) return bad("a stride is smaller than what it strides over");
  }
  const int64_t inner = map.box[0] * size;
  if (inner % 16 != 0) return bad("a box' rows are no multiple of 16 bytes");
  const int64_t span = map.swizzle == 0 ? 0 : int64_t{16} << map.swizzle;
  if (span != 0 && inner > span) return bad("a box' rows are longer than the swizzle");
  std::string out(128, '\0');
  static_assert(sizeof(map) <= 128);
  std::memcpy(out.data(), &map, sizeof(map));
  return out;
}

namespace ptx_interpreter {

bool finish_bulk(Warp* warp, int lane) {
  LaneCopies& copies = warp->copies[lane];
  if (!copies.bulk_open.empty()) return false;
  for (auto& group : copies.bulk_groups) {
    for (BulkStore& store : group) {
      if (!store.was_read) return false;
      store.write(store.data);
    }
  }
  copies.bulk_groups.clear();
  return true;
}

namespace {

using enum PtxType;

using Bytes = std::vector<std::byte>;

// Where a byte lies whose plain offset in shared memory this is.
int64_t swizzled(int64_t offset, int swizzle) {
  return swizzle == 0 ? offset : offset ^ ((offset >> 7 & ((1 << swizzle) - 1)) << 4);
}

// Calls f(host pointer of the row, or 0; offset in the box; bytes inside) for each element.
template <class F>
void each_element(const PtxTensorMap& map, const std::array<int32_t, 5>& at, F&& f) {
  const int64_t size = ptx_tensor_element_bytes(map);
  int64_t count = 1;
  for (int i = 0; i < map.rank; ++i) count *= map.box[i];
  for (int64_t n = 0; n < count; ++n) {
    int64_t rest = n;
    uint64_t address = map.address;
    bool inside = true;
    for (int i = 0; i < map.rank; ++i) {
      const int64_t x = at[i] + rest % map.box[i];
      rest /= map.box[i];
      inside &= x >= 0 && x < static_cast<int64_t>(map.dims[i]);
      address +=
          static_cast<uint64_t>(x * (i == 0 ? size : static_cast<int64_t>(map.strides[i - 1])));
    }
    f(inside ? address : 0, n * size, size);
  }
}

int64_t box_bytes(const PtxTensorMap& map) {
  int64_t bytes = ptx_tensor_element_bytes(map);
  for (int i = 0; i < map.rank; ++i) bytes *= map.box[i];
  return bytes;
}

// False after an error: no map, or it covers memory that there is not.
bool read_map(Warp& w, const Instruction& in, int lane, uint64_t address, int rank,
              PtxTensorMap* map) {
  if (address % 64 != 0) {
    w.fail(in, lane, "a tensor map lies at no multiple of 64");
    return false;
  }
  const std::byte* bytes = w.at(in, lane, Space::kGeneric, address, 128, false);
  if (bytes == nullptr) return false;
  std::memcpy(map, bytes, sizeof(*map));
  if (map->magic != PtxTensorMap::kMagic || map->rank != rank) {
    w.fail(in, lane, concat("no tensor map of rank ", rank, " lies there"));
    return false;
  }
  const int64_t row = map->box[0] * ptx_tensor_element_bytes(*map);
  if (map->swizzle != 0 && row != int64_t{16} << map->swizzle) {
    w.fail(in, lane, "rows shorter than the swizzle are not known");
    return false;
  }
  return true;
}

// op: destination, [1] map or source, [2] barrier, [3] mask of blocks (or -1), [4] bytes (plain).
// number: offsets of the first three; [3] rank, 0: plain. list: coordinates.
void run_bulk_load(Warp& w, const Instruction& in, uint32_t mask) {
  Machine* m = w.machine;
  each_lane(mask, [&](int l) {
    if (w.failed) return;
    PtxTensorMap map;
    const int rank = static_cast<int>(in.number[3]);
    const uint64_t from = w.get<uint64_t>(in.op[1], l) + static_cast<uint64_t>(in.number[1]);
    std::array<int32_t, 5> at = {};
    int64_t bytes = 0;
    if (rank > 0) {
      if (!read_map(w, in, l, from, rank, &map)) return;
      for (int i = 0; i < rank; ++i) at[i] = w.get<int32_t>(in.list[i], l);
      bytes = box_bytes(map);
    } else {
      bytes = w.get<uint32_t>(in.op[4], l);
      if (bytes % 16 != 0 || from % 16 != 0) return w.fail(in, l, "no multiple of 16 bytes");
      if (!may_touch(w, in, l, from, bytes, false)) return;
    }
    const uint64_t to = w.get<uint64_t>(in.op[0], l) + static_cast<uint64_t>(in.number[0]);
    if (to % (rank > 0 ? 128 : 16) != 0) return w.fail(in, l, "the destination is not aligned");
    uint32_t blocks = 0;
    const std::byte* first = w.at(in, l, Space::kCluster, to & ~uint64_t{15}, 16, true);
    if (first == nullptr) return;
    const Block* target = owner_of(m, first);
    const int64_t offset = first - target->shared;
    const uint64_t barrier = w.get<uint64_t>(in.op[2], l) + static_cast<uint64_t>(in.number[2]);
    Mbarrier* own = mbarrier_at(w, in, l, Space::kCluster, barrier);
    if (own == nullptr) return;
    const std::byte* place = w.at(in, l, Space::kCluster, barrier, 8, true);
    const int64_t barrier_offset = place - owner_of(m, place)->shared;
    blocks = in.op[3] < 0 ? 1u << target->rank : w.get<uint16_t>(in.op[3], l);
    for (const auto& block : m->blocks) {
      if (!(blocks >> block->rank & 1)) continue;
      if (offset + bytes > block->shared_bytes) {
        return w.fail(in, l, concat(bytes, " bytes reach beyond shared memory"));
      }
      std::byte* shared = block->shared;
      const int swizzle = rank > 0 ? map.swizzle : 0;
      const Block* receiver = block.get();
      auto land = [&w, &in, l, receiver, shared, offset, bytes, barrier_offset, map, at, rank,
                   swizzle, from] {
        if (rank == 0) {
          std::memcpy(shared + offset, reinterpret_cast<const void*>(from),
                      static_cast<size_t>(bytes));
        } else {
          each_element(map, at, [&](uint64_t address, int64_t place_in_box, int64_t size) {
            std::byte* out = shared + swizzled(offset + place_in_box, swizzle);
            if (w.failed) return;
            if (address == 0) {
              std::memset(out, 0, static_cast<size_t>(size));
              // A NaN of each format: all bits of its top byte or bytes.
              if (map.nan_fill != 0) std::memset(out, 0xff, static_cast<size_t>(size));
            } else if (may_touch(w, in, l, address, size, false)) {
              std::memcpy(out, reinterpret_cast<const void*>(address), static_cast<size_t>(size));
            }
          });
        }
        const auto found = const_cast<Block*>(receiver)->mbarriers.find(barrier_offset);
        if (found == receiver->mbarriers.end()) {
          return w.fail(in, l, "the mbarrier was gone when the copy landed");
        }
        complete_bytes(&found->second, bytes);
      };
      if (m->options.deliver_early) {
        land();
        continue;
      }
      for (int64_t i = 0; i < bytes; i += 4) std::memcpy(shared + offset + i, &kPoison, 4);
      m->deliveries.push_back(std::move(land));
    }
    if (blocks >> m->blocks.size() != 0) w.fail(in, l, "the mask names blocks there are not");
  });
}

template <class T>
void add_in_place(uint64_t address, const std::byte* value) {
  T a, b;
  std::memcpy(&a, reinterpret_cast<const void*>(address), sizeof(T));
  std::memcpy(&b, value, sizeof(T));
  a = static_cast<T>(a + b);
  std::memcpy(reinterpret_cast<void*>(address), &a, sizeof(T));
}

void add_element(const PtxTensorMap& map, uint64_t address, const std::byte* value) {
  uint16_t a = 0, b = 0;
  switch (map.type) {
    case 2:
    case 3: return add_in_place<uint32_t>(address, value);
    case 4:
    case 5: return add_in_place<uint64_t>(address, value);
    case 7:
    case 10: return add_in_place<float>(address, value);
    case 8: return add_in_place<double>(address, value);
    default:
      std::memcpy(&a, reinterpret_cast<const void*>(address), 2);
      std::memcpy(&b, value, 2);
      a = map.type == 6 ? to_half(double{from_half(a)} + from_half(b))
                        : to_bfloat(double{from_bfloat(a)} + from_bfloat(b));
      std::memcpy(reinterpret_cast<void*>(address), &a, 2);
  }
}

// op: map or destination, [1] source, [4] bytes (plain). number: offsets of both; [3] rank, 0:
// plain. list: coordinates. flags 1: adds.
void run_bulk_store(Warp& w, const Instruction& in, uint32_t mask) {
  Machine* m = w.machine;
  each_lane(mask, [&](int l) {
    if (w.failed) return;
    PtxTensorMap map;
    const int rank = static_cast<int>(in.number[3]);
    const uint64_t to = w.get<uint64_t>(in.op[0], l) + static_cast<uint64_t>(in.number[0]);
    std::array<int32_t, 5> at = {};
    int64_t bytes = 0;
    if (rank > 0) {
      if (!read_map(w, in, l, to, rank, &map)) return;
      for (int i = 0; i < rank; ++i) at[i] = w.get<int32_t>(in.list[i], l);
      bytes = box_bytes(map);
      if ((in.flags & 1) && (map.type < 2 || map.type > 10)) return w.fail(in, l, "no such sum");
    } else {
      bytes = w.get<uint32_t>(in.op[4], l);
      if (bytes % 16 != 0 || to % 16 != 0) return w.fail(in, l, "no multiple of 16 bytes");
      if (!may_touch(w, in, l, to, bytes, true)) return;
    }
    const uint64_t from = w.get<uint64_t>(in.op[1], l) + static_cast<uint64_t>(in.number[1]);
    if (from % (rank > 0 ? 128 : 16) != 0) return w.fail(in, l, "the source is not aligned");
    const int64_t offset = static_cast<int64_t>(from) - kSharedBase;
    if (offset < 0 || offset + bytes > w.block->shared_bytes) {
      return w.fail(in, l, concat(bytes, " bytes reach beyond shared memory"));
    }
    const std::byte* shared = w.block->shared;
    BulkStore store;
    const int swizzle = rank > 0 ? map.swizzle : 0;
    store.read = [shared, offset, bytes, swizzle](Bytes* out) {
      out->resize(static_cast<size_t>(bytes));
      for (int64_t i = 0; i < bytes; ++i) {
        (*out)[static_cast<size_t>(i)] = shared[swizzled(offset + i, swizzle)];
      }
    };
    store.write = [&w, &in, l, rank, to, map, at](const Bytes& data) {
      if (rank == 0) {
        std::memcpy(reinterpret_cast<void*>(to), data.data(), data.size());
        return;
      }
      each_element(map, at, [&](uint64_t address, int64_t place, int64_t size) {
        if (w.failed || address == 0 || !may_touch(w, in, l, address, size, true)) return;
        if (in.flags & 1) return add_element(map, address, data.data() + place);
        std::memcpy(reinterpret_cast<void*>(address), data.data() + place,
                    static_cast<size_t>(size));
      });
    };
    if (m->options.deliver_early) {
      store.read(&store.data);
      store.write(store.data);
      return;
    }
    w.bulk = true;
    w.copies[l].bulk_open.push_back(std::move(store));
  });
}

void run_bulk_commit(Warp& w, const Instruction&, uint32_t mask) {
  each_lane(mask, [&](int l) {
    w.copies[l].bulk_groups.push_back(std::move(w.copies[l].bulk_open));
    w.copies[l].bulk_open.clear();
  });
}

// number[0]: groups that may stay open. flags 1: of the others only shared memory must be read.
void run_bulk_wait(Warp& w, const Instruction& in, uint32_t mask) {
  each_lane(mask, [&](int l) {
    auto& groups = w.copies[l].bulk_groups;
    const size_t stay = static_cast<size_t>(in.number[0]);
    for (size_t i = 0; i + stay < groups.size(); ++i) {
      for (BulkStore& store : groups[i]) {
        if (!store.was_read) store.read(&store.data);
        store.was_read = true;
        if (!(in.flags & 1)) store.write(store.data);
      }
    }
    while (!(in.flags & 1) && groups.size() > stay) groups.pop_front();
  });
}

// [map, {coordinates}] into in.op[slot].
void decode_box(Decoder& d, int i, int slot, int rank) {
  const Operand& o = d.operand(i);
  d.address_of(o, slot, slot, Space::kGeneric);
  if (o.items.size() != 1 || static_cast<int>(o.items[0].items.size()) != rank) {
    return d.fail(concat("a tensor of rank ", rank, " needs as many coordinates"));
  }
  for (const Operand& item : o.items[0].items) d.in.list.push_back(d.source(item, kS32));
}

int take_rank(Decoder& d) {
  const std::string_view rank = d.must_take({"1d", "2d", "3d", "4d", "5d"});
  return rank.empty() ? 1 : rank[0] - '0';
}

void decode_bulk_load(Decoder& d, int rank) {
  if (!d.take("global")) return d.unknown();
  if (rank > 0) d.take("tile");
  if (!d.take("mbarrier::complete_tx::bytes")) return d.unknown();
  const bool multicast = d.take("multicast::cluster"), hint = d.take("L2::cache_hint");
  const int plain = rank > 0 ? 0 : 1;
  d.expect_operands(3 + plain + (multicast ? 1 : 0) + (hint ? 1 : 0));
  if (!d.ok()) return;
  d.address_of(d.operand(0), 0, 0, Space::kCluster);
  if (rank > 0)
    decode_box(d, 1, 1, rank);
  else
    d.address_of(d.operand(1), 1, 1, Space::kGlobal);
  if (rank == 0) d.in.op[4] = d.source(2, kU32);
  d.address_of(d.operand(2 + plain), 2, 2, Space::kCluster);
  if (multicast) d.in.op[3] = d.source(3 + plain, kU16);
  if (hint) d.source(d.operands() - 1, kB64);
  d.in.number[3] = rank;
  d.in.run = run_bulk_load;
}

void decode_bulk_store(Decoder& d, int rank, bool add) {
  if (!d.take("shared::cta")) return d.unknown();
  if (add && !d.take("add")) return d.unknown();
  if (rank > 0) d.take("tile");
  if (!d.take("bulk_group")) return d.unknown();
  const bool hint = d.take("L2::cache_hint");
  const int plain = rank > 0 ? 0 : 1;
  d.expect_operands(2 + plain + (hint ? 1 : 0));
  if (!d.ok()) return;
  if (rank > 0)
    decode_box(d, 0, 0, rank);
  else
    d.address_of(d.operand(0), 0, 0, Space::kGlobal);
  d.address_of(d.operand(1), 1, 1, Space::kShared);
  if (rank == 0) d.in.op[4] = d.source(2, kU32);
  if (hint) d.source(d.operands() - 1, kB64);
  d.in.number[3] = rank;
  d.in.flags = add ? 1 : 0;
  d.in.run = run_bulk_store;
}

}  // namespace

void decode_bulk(Decoder& d) {
  const bool add = d.take("reduce");
  if (!d.take("async") || !d.take("bulk")) return d.unknown();
  if (!add && d.take("commit_group")) {
    d.expect_operands(0);
    d.in.run = run_bulk_commit;
    return;
  }
  if (!add && d.take("wait_group")) {
    d.in.flags = d.take("read") ? 1 : 0;
    d.expect_operands(1);
    d.in.number[0] = d.integer(0, 0, 1 << 30);
    d.in.run = run_bulk_wait;
    return;
  }
  const bool tensor = d.take("tensor");
  if (add && !tensor) return d.unknown();
  const int rank = tensor ? take_rank(d) : 0;
  if (d.take("global")) return decode_bulk_store(d, rank, add);
  if (add || !d.take("shared::cluster")) return d.unknown();
  decode_bulk_load(d, rank);
}

}  // namespace ptx_interpreter
}  // namespace lw
