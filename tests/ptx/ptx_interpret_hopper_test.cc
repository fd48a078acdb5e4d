// The PTX interpreter's mbarriers, bulk copies, clusters and wgmma.
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "tests/ptx/ptx_text.h"

namespace lw {
namespace {

// An entry of pointers p0 ... and a tensor map `map`.
std::string with_map(const std::string& body, int pointers) {
  std::string text = ptx_text(body, pointers, true);
  const std::string mark = concat("p", pointers - 1, ")");
  text.replace(text.find(mark), mark.size(),
               concat("p", pointers - 1, ", .param .align 64 .b8 map[128])"));
  return text;
}

const char* const kWait = R"({
.reg .pred %done;
W:
mbarrier.try_wait.parity.shared::cta.b64 %done, [%b], $;
@!%done bra W;
}
)";
std::string wait_parity(const std::string& parity) {
  std::string text = kWait;
  text.replace(text.find('$'), 1, parity);
  return text;
}

const char* const kHopperHead = R"(.reg .pred %p, %q;
.reg .b32 %t, %b, %s, %d, %r<8>;
.reg .b64 %o, %x, %m;
mov.u32 %t, %tid.x;
mov.u32 %b, shared;
add.u32 %s, %b, 1024;
setp.eq.u32 %p, %t, 0;
@%p mbarrier.init.shared::cta.b64 [%b], 1;
fence.mbarrier_init.release.cluster;
bar.sync 0;
ld.param.u64 %o, [p0];
mul.wide.u32 %x, %t, 4;
add.u64 %o, %o, %x;
)";

// 40 x 24 values of u16, their own numbers, in rows of 64 bytes.
std::vector<uint8_t> tensor_of_numbers() {
  std::vector<uint16_t> values(40 * 32, 0xeeee);
  for (uint16_t row = 0; row < 40; ++row) {
    for (uint16_t column = 0; column < 24; ++column) {
      values[row * 32 + column] = static_cast<uint16_t>(row * 100 + column);
    }
  }
  return bytes_of_values(values);
}
PtxTensorMap map_of(const std::vector<uint8_t>& tensor, int swizzle, int inner, int rows) {
  PtxTensorMap map;
  map.type = 1;
  map.rank = 2;
  map.swizzle = static_cast<uint8_t>(swizzle);
  map.address = reinterpret_cast<uint64_t>(tensor.data());
  map.dims = {24, 40, 1, 1, 1};
  map.strides = {64, 0, 0, 0};
  map.box = {static_cast<uint16_t>(inner), static_cast<uint16_t>(rows), 1, 1, 1};
  return map;
}

TEST(PtxInterpretHopper, loads_boxes) {
  // std::vector's memory is aligned to 16, which is what a map demands.
  std::vector<uint8_t> tensor = tensor_of_numbers();
  for (const int swizzle : {0, 1, 2, 3}) {
    for (const bool early : {false, true}) {
      const int inner = swizzle == 0 ? 8 : 8 << swizzle;
      auto map = encode_tensor_map(map_of(tensor, swizzle, inner, 16));
      ASSERT_TRUE(map.ok()) << map.status();
      // The whole box, as it lies in shared memory.
      std::vector<uint8_t> out(static_cast<size_t>(inner) * 16 * 2);
      PtxRun run;
      run.items = inner * 8;
      run.shared = 1024 + 4096;
      run.pointers = 1;
      run.extra = {*map};
      run.options.deliver_early = early;
      const absl::Status status =
          run_ptx(with_map(concat(kHopperHead, R"(mov.b64 %m, map;
cvta.param.u64 %m, %m;
@%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], )",
                                  out.size(), R"(;
@%p cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%s],
  [%m, {4, -2}], [%b];
)",
                                  wait_parity("0"), R"(mad.lo.u32 %s, %t, 4, %s;
ld.shared.b32 %d, [%s];
st.global.b32 [%o], %d;
)"),
                           1),
                  run, {&out, &tensor});
      ASSERT_TRUE(status.ok()) << status;
      const auto got = values_of_bytes<uint16_t>(out);
      for (int r = 0; r < 16; ++r) {
        for (int c = 0; c < inner; ++c) {
          // In rows of W bytes, chunk i of 16 bytes lies at i xor what 128-byte line it is in.
          const int byte = (r * inner + c) * 2, line = byte / 128;
          const int chunk = byte / 16 % 8 ^ (line % (1 << swizzle));
          const int place = line * 128 + chunk * 16 + byte % 16;
          const int row = r - 2, column = c + 4;
          const int want = row < 0 || column >= 24 ? 0 : row * 100 + column;
          ASSERT_EQ(got[static_cast<size_t>(place / 2)], want) << swizzle << " " << r << " " << c;
        }
      }
    }
  }
}

TEST(PtxInterpretHopper, too_small_an_expectation_shows_poison) {
  std::vector<uint8_t> out(128), in(256, 1);
  const auto first = [&](int expected) {
    PtxRun run;
    run.shared = 2048;
    const absl::Status status =
        run_ptx(ptx_text(concat(kHopperHead, R"(ld.param.u64 %m, [p1];
@%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], )",
                                expected, R"(;
@%p cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%s], [%m], 128, [%b];
@%p cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%s+128], [%m], 128, [%b];
)",
                                wait_parity("0"), R"(ld.shared.b32 %d, [%s+128];
st.global.b32 [%o], %d;
)"),
                         2, true),
                run, {&out, &in});
    return concat(std::string(status.message()), values_of_bytes<uint32_t>(out)[0]);
  };
  EXPECT_EQ(first(256), concat(0x01010101));
  EXPECT_NE(first(128).find(concat(0x7fc0dead)), std::string::npos);
  EXPECT_NE(first(512).find("deadlock"), std::string::npos);
  EXPECT_NE(first(512).find("256 bytes are missing"), std::string::npos);
}

TEST(PtxInterpretHopper, stores_read_late) {
  std::vector<uint8_t> out(128), tensor(40 * 64);
  const auto stored = [&](const std::string& wait) {
    std::fill(tensor.begin(), tensor.end(), uint8_t{0});
    auto map = encode_tensor_map(map_of(tensor, 0, 8, 4));
    PtxRun run;
    run.shared = 2048;
    run.pointers = 1;
    run.extra = {*map};
    const absl::Status status = run_ptx(with_map(concat(kHopperHead, R"(mov.b64 %m, map;
cvta.param.u64 %m, %m;
mad.lo.u32 %r0, %t, 4, %s;
mov.b32 %r1, 0x00050005;
st.shared.b32 [%r0], %r1;
fence.proxy.async.shared::cta;
bar.sync 0;
@%p cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%m, {16, 38}], [%s];
@%p cp.async.bulk.commit_group;
)",
                                                        wait, R"(
bar.sync 0;
mov.b32 %r1, 0x00060006;
st.shared.b32 [%r0], %r1;
cp.async.bulk.wait_group 0;
)"),
                                                 1),
                                        run, {&out, &tensor});
    if (!status.ok()) return -1;
    const auto values = values_of_bytes<uint16_t>(tensor);
    EXPECT_EQ(values[38 * 32 + 15], 0);
    EXPECT_EQ(values[38 * 32 + 24], 0);
    EXPECT_EQ(values[39 * 32 + 23], values[38 * 32 + 16]);
    return int{values[38 * 32 + 16]};
  };
  EXPECT_EQ(stored("cp.async.bulk.wait_group.read 0;"), 5);
  EXPECT_EQ(stored(""), 6);
}

TEST(PtxInterpretHopper, sums_boxes) {
  std::vector<uint8_t> out(128);
  std::vector<uint8_t> tensor = bytes_of_values(std::vector<float>(64, 1.5f));
  PtxTensorMap map;
  map.type = 7;
  map.rank = 1;
  map.address = reinterpret_cast<uint64_t>(tensor.data());
  map.dims[0] = 64;
  map.box[0] = 32;
  PtxRun run;
  run.shared = 2048;
  run.groups = 2;
  run.pointers = 1;
  run.extra = {*encode_tensor_map(map)};
  const absl::Status status = run_ptx(with_map(concat(kHopperHead, R"(mov.b64 %m, map;
cvta.param.u64 %m, %m;
mad.lo.u32 %r0, %t, 4, %s;
mov.b32 %r1, 0f3F800000;
st.shared.b32 [%r0], %r1;
fence.proxy.async.shared::cta;
bar.sync 0;
@%p cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.bulk_group [%m, {16}], [%s];
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
)"),
                                               1),
                                      run, {&out, &tensor});
  ASSERT_TRUE(status.ok()) << status;
  const auto values = values_of_bytes<float>(tensor);
  EXPECT_EQ(values[15], 1.5f);
  EXPECT_EQ(values[16], 3.5f);
  EXPECT_EQ(values[47], 3.5f);
  EXPECT_EQ(values[48], 1.5f);
}

TEST(PtxInterpretHopper, clusters_share_memory_and_copies) {
  // Block 0 loads for both; each then adds its rank to its peer's counter, remotely.
  for (const uint64_t seed : {0, 1, 2}) {
    std::vector<uint8_t> out(4 * 128), in(128, 3);
    PtxRun run;
    run.groups = 4;
    run.cluster = 2;
    run.shared = 2048;
    run.options.seed = seed;
    const absl::Status status =
        run_ptx(ptx_text(concat(kHopperHead, R"(.reg .b16 %both;
.reg .b32 %rank, %peer;
mov.u16 %both, 3;
ld.param.u64 %m, [p1];
mov.u32 %rank, %cluster_ctarank;
xor.b32 %peer, %rank, 1;
@%p st.shared.u32 [%b+64], 100;
@%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], 128;
barrier.cluster.arrive.release.aligned;
barrier.cluster.wait.acquire.aligned;
setp.eq.and.u32 %q, %rank, 0, %p;
@%q cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%s],
  [%m], 128, [%b], %both;
mapa.shared::cluster.u32 %r0, %b, %peer;
@%p red.release.cluster.shared::cluster.add.u32 [%r0+64], %rank;
)",
                                wait_parity("0"), R"(barrier.cluster.arrive.aligned;
barrier.cluster.wait.aligned;
mad.lo.u32 %s, %t, 4, %s;
ld.shared.b32 %d, [%s];
ld.shared.b32 %r1, [%b+64];
add.u32 %d, %d, %r1;
mov.u32 %r2, %ctaid.x;
mul.wide.u32 %x, %r2, 128;
add.u64 %o, %o, %x;
st.global.b32 [%o], %d;
)"),
                         2, true),
                run, {&out, &in});
    ASSERT_TRUE(status.ok()) << status;
    const auto words = values_of_bytes<uint32_t>(out);
    for (uint32_t i = 0; i < 128; ++i) {
      EXPECT_EQ(words[i], 0x03030303u + 100 + (i / 32 % 2 == 0 ? 1 : 0));
    }
  }
}

TEST(PtxInterpretHopper, phases_of_a_ring) {
  // Warp 0 fills one slot of shared memory 6 times; warp 1 empties it. full: %b, empty: %b + 8.
  const std::string body = std::string(kHopperHead) + R"(.reg .b32 %i, %parity, %e, %other;
add.u32 %e, %b, 8;
@%p mbarrier.init.shared::cta.b64 [%e], 1;
bar.sync 0;
mov.u32 %i, 0;
mov.u32 %d, 0;
setp.ge.u32 %q, %t, 32;
@%q bra consumer;
elect.sync %r0|%p, -1;
@!%p bra end;
fill:
and.b32 %parity, %i, 1;
xor.b32 %other, %parity, 1;
E: mbarrier.try_wait.parity.shared::cta.b64 %q, [%e], %other;
@!%q bra E;
st.shared.b32 [%s], %i;
mbarrier.arrive.shared::cta.b64 _, [%b];
add.u32 %i, %i, 1;
setp.lt.u32 %p, %i, 6;
@%p bra fill;
bra end;
consumer:
and.b32 %parity, %i, 1;
F: mbarrier.try_wait.parity.shared::cta.b64 %q, [%b], %parity;
@!%q bra F;
ld.shared.b32 %r1, [%s];
mad.lo.u32 %d, %d, 10, %r1;
bar.warp.sync -1;
elect.sync _|%p, -1;
@%p mbarrier.arrive.shared::cta.b64 _, [%e];
add.u32 %i, %i, 1;
setp.lt.u32 %p, %i, 6;
@%p bra consumer;
end:
st.global.b32 [%o], %d;
)";
  for (const uint64_t seed : {0, 1, 2, 3}) {
    PtxRun run;
    run.items = 64;
    run.shared = 2048;
    run.options.seed = seed;
    EXPECT_EQ(warp_result(body, run, true)[40], 12345u);
  }
  PtxRun run;
  run.items = 64;
  run.shared = 2048;
  EXPECT_NE(warp_error(std::string(kHopperHead) + "mbarrier.arrive.shared::cta.b64 _, [%b], 2;\n",
                       run, true)
                .find("more than 1 arrivals"),
            std::string::npos);
  EXPECT_NE(warp_error(std::string(kHopperHead) + "mbarrier.arrive.shared::cta.b64 _, [%b+8];\n",
                       run, true)
                .find("no mbarrier"),
            std::string::npos);
}

// D = A B + D of m64nNk16 bf16, A and B being laid out by hand for the swizzle.
struct Layout {
  int swizzle;                // 0, 32, 64, 128 bytes
  bool transposed_b = false;  // B's rows lie along N
  bool registers = false;     // A is in registers
};

int swizzled_place(int byte, int swizzle) {
  // Address bits 4 ... are changed by as many bits from 7 on: within 8 rows of the swizzle.
  return byte ^ ((byte / 128 % (swizzle / 16 == 0 ? 1 : swizzle / 16)) * 16);
}

void expect_wgmma(const Layout& layout, const std::string& wait, bool right, bool early = false) {
  const int n = 32, width = layout.swizzle == 0 ? 16 : layout.swizzle;
  const auto bits = [](int x) {
    return static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(x)) >> 16);
  };
  const auto a = [](int m, int k) { return (m * 7 + k * 3) % 11 - 5; };
  const auto b = [](int k, int x) { return (k * 5 + x * 2) % 13 - 6; };
  // Shared memory: A at 0, B at 8192; `image` is copied there.
  std::vector<uint8_t> image(16384, 0xcc);
  const auto put = [&](int base, int byte, int value) {
    const uint16_t x = bits(value);
    std::memcpy(&image[static_cast<size_t>(base + swizzled_place(byte, layout.swizzle))], &x, 2);
  };
  // K along rows: 8 rows of `width` bytes, then the next 8. Without swizzle the second 8 of k lie
  // 128 bytes on.
  const int group = layout.swizzle == 0 ? 256 : width * 8;
  const auto along_k = [&](int x, int k) {
    if (layout.swizzle == 0) return x / 8 * group + k / 8 * 128 + x % 8 * 16 + k % 8 * 2;
    return x / 8 * group + x % 8 * width + k * 2;
  };
  for (int k = 0; k < 16; ++k) {
    for (int m = 0; m < 64; ++m) put(0, along_k(m, k), a(m, k));
    for (int x = 0; x < n; ++x) {
      if (!layout.transposed_b) {
        put(8192, along_k(x, k), b(k, x));
        continue;
      }
      // N along rows of `width` bytes; 8 k are an atom; atoms along n lie 2048 apart, groups of 8 k
      // 1024 apart.
      const int per = width / 2;
      put(8192, x / per * 2048 + k / 8 * 1024 + k % 8 * width + x % per * 2, b(k, x));
    }
  }
  const auto descriptor = [&](int base, bool transposed) {
    uint64_t leading = layout.swizzle == 0 ? 128 : 16, stride = static_cast<uint64_t>(group);
    if (transposed) leading = layout.swizzle == 0 ? 1024 : 2048;
    if (transposed) stride = layout.swizzle == 0 ? 2048 : 1024;
    const uint64_t mode = layout.swizzle == 0     ? 0
                          : layout.swizzle == 128 ? 1
                          : layout.swizzle == 64  ? 2
                                                  : 3;
    return static_cast<uint64_t>(base >> 4) | leading >> 4 << 16 | stride >> 4 << 32 | mode << 62;
  };
  // A's fragments: of warp w rows 16w + lane / 4 and 8 more, k pairs 2 (lane % 4) and 8 more.
  std::vector<uint32_t> fragments;
  for (int thread = 0; thread < 128; ++thread) {
    const int m = thread / 32 * 16 + thread % 32 / 4, k = thread % 4 * 2;
    for (int i = 0; i < 4; ++i) {
      const int row = m + i % 2 * 8, column = k + i / 2 * 8;
      fragments.push_back(bits(a(row, column)) | uint32_t{bits(a(row, column + 1))} << 16);
    }
  }
  std::string body = R"(.reg .b32 %t, %s, %w, %a<4>;
.reg .b64 %o, %x, %i, %da, %db, %base;
.reg .f32 %d<16>;
.reg .pred %p;
mov.u32 %t, %tid.x;
ld.param.u64 %i, [p1];
mul.wide.u32 %x, %t, 128;
add.u64 %i, %i, %x;
mov.u32 %s, shared;
mad.lo.u32 %s, %t, 128, %s;
)";
  for (int i = 0; i < 8; ++i) {
    body += concat("ld.global.v4.b32 {%a0, %a1, %a2, %a3}, [%i+", i * 16,
                   "];\nst.shared.v4.b32 [%s+", i * 16, "], {%a0, %a1, %a2, %a3};\n");
  }
  body += R"(fence.proxy.async.shared::cta;
bar.sync 0;
ld.param.u64 %i, [p2];
mul.wide.u32 %x, %t, 16;
add.u64 %i, %i, %x;
ld.global.v4.b32 {%a0, %a1, %a2, %a3}, [%i];
mov.u32 %s, shared;
cvt.u64.u32 %base, %s;
shr.u64 %base, %base, 4;
)";
  body +=
      concat("add.u64 %da, %base, ", std::to_string(static_cast<int64_t>(descriptor(0, false))),
             ";\nadd.u64 %db, %base, ",
             std::to_string(static_cast<int64_t>(descriptor(8192, layout.transposed_b))), ";\n");
  std::string ds = "{";
  for (int i = 0; i < 16; ++i) ds += concat(i == 0 ? "" : ", ", "%d", i);
  ds += "}";
  const auto product = [&](const char* p) {
    return concat("wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 ", ds, ", ",
                  layout.registers ? "{%a0, %a1, %a2, %a3}" : "%da", ", %db, ", p, ", 1, 1, ",
                  layout.registers ? "" : "0, ", layout.transposed_b ? 1 : 0, ";\n");
  };
  body +=
      concat("wgmma.fence.sync.aligned;\nsetp.ne.u32 %p, 0, 0;\n", product("%p"),
             "setp.eq.u32 %p, 0, 0;\n", product("%p"), "wgmma.commit_group.sync.aligned;\n", wait,
             R"(ld.param.u64 %o, [p0];
mul.wide.u32 %x, %t, 64;
add.u64 %o, %o, %x;
)");
  for (int i = 0; i < 16; ++i) body += concat("st.global.f32 [%o+", i * 4, "], %d", i, ";\n");
  std::vector<uint8_t> out(128 * 64), regs = bytes_of_values(fragments);
  PtxRun run;
  run.items = 128;
  run.shared = 16384;
  run.options.deliver_early = early;
  const absl::Status status = run_ptx(ptx_text(body, 3, true), run, {&out, &image, &regs});
  if (!right) {
    EXPECT_FALSE(status.ok());
    return;
  }
  ASSERT_TRUE(status.ok()) << status;
  const auto d = values_of_bytes<float>(out);
  for (int m = 0; m < 64; ++m) {
    for (int x = 0; x < n; ++x) {
      int want = 0;
      for (int k = 0; k < 16; ++k) want += 2 * a(m, k) * b(k, x);
      // Row 16w + lane / 4 (+ 8), column 8j + 2 (lane % 4) (+ 1).
      const int thread = m / 16 * 32 + m % 8 * 4 + x % 8 / 2;
      const int i = x / 8 * 4 + m % 16 / 8 * 2 + x % 2;
      ASSERT_EQ(d[static_cast<size_t>(thread * 16 + i)], static_cast<float>(want))
          << m << " " << x << " swizzle " << layout.swizzle;
    }
  }
}

TEST(PtxInterpretHopper, products_of_warpgroups) {
  const std::string wait = "wgmma.wait_group.sync.aligned 0;\n";
  for (const int swizzle : {0, 32, 64, 128}) {
    for (const bool transposed : {false, true}) {
      for (const bool registers : {false, true}) {
        expect_wgmma({swizzle, transposed, registers}, wait, true);
        expect_wgmma({swizzle, transposed, registers}, wait, true, true);
      }
    }
  }
  // Accumulators have no value before the wait.
  expect_wgmma({128}, "", false);
  expect_wgmma({128}, "wgmma.wait_group.sync.aligned 1;\n", false);
}

TEST(PtxInterpretHopper, maps_that_a_driver_refuses) {
  std::vector<uint8_t> tensor(4096);
  const auto refused = [&](auto&& change) {
    PtxTensorMap map = map_of(tensor, 3, 64, 8);
    map.dims[0] = 32;
    EXPECT_TRUE(encode_tensor_map(map).ok());
    change(map);
    return !encode_tensor_map(map).ok();
  };
  EXPECT_TRUE(refused([](PtxTensorMap& m) { m.rank = 6; }));
  EXPECT_TRUE(refused([](PtxTensorMap& m) { m.address += 8; }));
  EXPECT_TRUE(refused([](PtxTensorMap& m) { m.strides[0] = 72; }));
  EXPECT_TRUE(refused([](PtxTensorMap& m) { m.strides[0] = 48; }));
  EXPECT_TRUE(refused([](PtxTensorMap& m) { m.box[1] = 257; }));
  EXPECT_TRUE(refused([](PtxTensorMap& m) { m.box[0] = 72; }));
  EXPECT_TRUE(refused([](PtxTensorMap& m) { m.box[0] = 7; }));
  EXPECT_TRUE(refused([](PtxTensorMap& m) { m.nan_fill = 1; }));
}

}  // namespace
}  // namespace lw
