// The PTX interpreter's memory, flow and barriers, and the errors that it reports.
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "tests/ptx/ptx_text.h"

namespace lw {
namespace {

// %q: p0 + 4 * the thread's number in its block (%t), whose lane is %l.
const char* const kHead = R"(.reg .pred %p, %p2;
.reg .b32 %t, %l, %a, %b, %c, %d;
.reg .b64 %q, %o, %x, %y;
.reg .f32 %f, %g;
ld.param.u64 %q, [p0];
cvta.to.global.u64 %q, %q;
mov.u32 %t, %tid.x;
mov.u32 %l, %laneid;
mul.wide.u32 %o, %t, 4;
add.u64 %q, %q, %o;
)";
const char* const kTail = "st.global.b32 [%q], %d;\nret;\n";

std::vector<uint32_t> result_of(const std::string& body, const PtxRun& run = {}) {
  return warp_result(kHead + body + kTail, run);
}
// That running the body fails, with all these words.
void expect_error(const std::string& body, const std::vector<std::string>& words,
                  const PtxRun& run = {}) {
  const std::string message = warp_error(kHead + body + kTail, run);
  for (const std::string& word : words) {
    EXPECT_NE(message.find(word), message.npos) << "'" << word << "' is not in: " << message;
  }
}

TEST(PtxInterpret, lists_entries) {
  const auto module = parse_ptx(R"(.version 7.5
.target sm_80
.address_size 64
.visible .entry one(.param .u64 a, .param .u32 n, .param .align 64 .b8 map[128])
.maxntid 256, 1, 1
.minnctapersm 1
{
  .local .align 16 .b8 stack[48];
  ret;
}
.visible .entry two() .reqntid 32, 2, 1 { .reg .b32 %r<3>; exit; }
)");
  ASSERT_TRUE(module.ok()) << module.status();
  EXPECT_EQ(module->target(), "sm_80");
  ASSERT_EQ(module->entries().size(), 2u);
  const PtxEntry& one = *module->find("one");
  ASSERT_EQ(one.parameters.size(), 3u);
  EXPECT_EQ(one.parameters[1].offset, 8);
  EXPECT_EQ(one.parameters[1].bytes, 4);
  EXPECT_EQ(one.parameters[2].name, "map");
  EXPECT_EQ(one.parameters[2].offset, 64);
  EXPECT_EQ(one.parameter_bytes, 192);
  EXPECT_EQ(one.max_items, (std::array<int64_t, 3>{256, 1, 1}));
  EXPECT_EQ(one.local_bytes, 48);
  EXPECT_TRUE(module->find("two")->exact_items);
  EXPECT_EQ(module->find("three"), nullptr);
}

TEST(PtxInterpret, launches_must_fit) {
  const auto module = parse_ptx(ptx_text("ret;\n", 1, false, 64));
  ASSERT_TRUE(module.ok()) << module.status();
  const auto error = [&](const PtxLaunch& launch) {
    return std::string(interpret_ptx(*module, launch, {}).message());
  };
  PtxLaunch launch;
  launch.entry = "k";
  EXPECT_NE(error(launch).find("0 parameters for 1"), std::string::npos);
  launch.parameters = {"1234567"};
  EXPECT_NE(error(launch).find("has 8 bytes, not 7"), std::string::npos);
  launch.parameters = {ptx_pointer(nullptr)};
  EXPECT_EQ(error(launch), "");
  launch.items[0] = 65;
  EXPECT_NE(error(launch).find("65 threads, and 64 may be"), std::string::npos);
  launch.items[0] = 64;
  launch.shared_bytes = 300000;
  EXPECT_NE(error(launch).find("shared memory"), std::string::npos);
}

TEST(PtxInterpret, special_registers) {
  PtxRun run;
  run.items = 64;
  run.groups = 1;
  const auto out = result_of(R"(mov.u32 %a, %warpid;
mov.u32 %b, %ntid.x;
mad.lo.u32 %d, %a, 1000, %l;
mad.lo.u32 %d, %b, 100000, %d;
mov.u32 %a, %nctaid.x;
mad.lo.u32 %d, %a, 10000000, %d;
)",
                             run);
  EXPECT_EQ(out[0], 10000000u + 6400000);
  EXPECT_EQ(out[37], 10000000u + 6400000 + 1000 + 5);
}

TEST(PtxInterpret, loads_widen_and_vectors_keep_their_order) {
  std::vector<uint8_t> out(128), in(64);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<uint8_t>(0xf0 + i);
  PtxRun run;
  run.items = 1;
  const absl::Status status = run_ptx(ptx_text(R"(.reg .b32 %r<8>;
.reg .b64 %o, %i, %w;
.reg .b16 %h;
ld.param.u64 %o, [p0];
ld.param.u64 %i, [p1];
ld.global.nc.s8 %r0, [%i+1];
ld.global.u8 %r1, [%i+1];
ld.global.s16 %r2, [%i+2];
ld.global.ca.u8 %h, [%i+3];
st.global.b16 [%o], %h;
st.global.v2.b32 [%o+8], {%r0, %r1};
st.global.b32 [%o+4], %r2;
ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%i+16];
add.u64 %w, %o, 64;
st.global.v4.u32 [%w+-48], {%r7, %r6, %r5, %r4};
st.global.u8 [%o+32], %r4;
ld.global.s8 %w, [%i];
st.global.u64 [%o+40], %w;
ret;
)",
                                               2),
                                      run, {&out, &in});
  ASSERT_TRUE(status.ok()) << status;
  const auto words = values_of_bytes<uint32_t>(out);
  EXPECT_EQ(words[0] & 0xffff, 0xf3u);
  EXPECT_EQ(words[1], 0xfffff3f2u);
  EXPECT_EQ(words[2], 0xfffffff1u);
  EXPECT_EQ(words[3], 0xf1u);
  EXPECT_EQ(words[4], values_of_bytes<uint32_t>(in)[7]);
  EXPECT_EQ(words[7], values_of_bytes<uint32_t>(in)[4]);
  EXPECT_EQ(out[32], in[16]);
  EXPECT_EQ(values_of_bytes<int64_t>(out)[5], -16);
}

TEST(PtxInterpret, shared_and_local_memory) {
  PtxRun run;
  run.items = 64;
  run.shared = 256;
  // Each takes its mirror image's number, through shared memory, and keeps it in its own.
  const std::string body = R"(.local .align 8 .b8 mine[16];
mov.u32 %a, shared;
shl.b32 %b, %t, 2;
add.u32 %b, %a, %b;
st.shared.b32 [%b], %t;
bar.sync 0;
sub.u32 %c, 63, %t;
shl.b32 %c, %c, 2;
add.u32 %c, %a, %c;
ld.shared.b32 %d, [%c];
st.local.b32 [mine+4], %d;
mov.u32 %d, 0;
mov.u64 %x, mine;
ld.local.b32 %d, [%x+4];
)";
  for (const uint64_t seed : {0, 1, 2, 3}) {
    run.options.seed = seed;
    const auto out = result_of(body, run);
    for (uint32_t i = 0; i < 64; ++i) ASSERT_EQ(out[i], 63 - i);
  }
  // What nobody wrote is poison.
  EXPECT_EQ(result_of("ld.shared.b32 %d, [shared+8];\n", run)[0], 0x7f7f7f7fu);
}

TEST(PtxInterpret, loops_and_branches_of_threads) {
  // The number of Collatz steps; lanes leave the loop one by one.
  const auto out = result_of(R"(add.u32 %a, %t, 1;
mov.u32 %d, 0;
loop:
setp.eq.u32 %p, %a, 1;
@%p bra done;
and.b32 %b, %a, 1;
setp.eq.u32 %p2, %b, 0;
@%p2 bra even;
mad.lo.u32 %a, %a, 3, 1;
bra.uni next;
even:
shr.u32 %a, %a, 1;
next:
add.u32 %d, %d, 1;
bra loop;
done:
activemask.b32 %b;
setp.ne.b32 %p, %b, 0xffffffff;
@%p trap;
)");
  for (uint32_t i = 0; i < 32; ++i) {
    uint32_t steps = 0;
    for (uint32_t x = i + 1; x != 1; ++steps) x = x % 2 != 0 ? 3 * x + 1 : x / 2;
    EXPECT_EQ(out[i], steps);
  }
}

TEST(PtxInterpret, scopes_of_names) {
  EXPECT_EQ(result_of(R"(mov.u32 %d, 1;
{
.reg .b32 %d2, %a;
mov.u32 %a, 5;
bra L;
trap;
L:
add.u32 %d, %d, %a;
}
{
.reg .b32 %a;
mov.u32 %a, 7;
bra L;
trap;
L:
add.u32 %d, %d, %a;
}
)")[0],
            13u);
}

TEST(PtxInterpret, shuffles_votes_and_reductions) {
  auto out = result_of("shfl.sync.bfly.b32 %d, %l, 5, 31, 0xffffffff;\n");
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(out[i], i ^ 5);
  out = result_of("shfl.sync.down.b32 %d|%p, %l, 3, 31, -1;\n@!%p add.u32 %d, %d, 100;\n");
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(out[i], i + 3 < 32 ? i + 3 : i + 100);
  out = result_of("shfl.sync.up.b32 %d|%p, %l, 2, 0, -1;\n@!%p add.u32 %d, %d, 100;\n");
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(out[i], i >= 2 ? i - 2 : i + 100);
  out = result_of("shfl.sync.down.b32 _|%p, %l, 3, 31, -1;\nselp.b32 %d, 1, 0, %p;\n");
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(out[i], i + 3 < 32 ? 1u : 0u);
  // Segments of 8: their first lane's.
  out = result_of("shfl.sync.idx.b32 %d, %l, 0, 0x181f, -1;\n");
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(out[i], i / 8 * 8);
  out = result_of("setp.gt.u32 %p, %l, 28;\nvote.sync.ballot.b32 %d, %p, -1;\n");
  EXPECT_EQ(out[0], 0xe0000000u);
  out = result_of(R"(setp.gt.u32 %p, %l, 28;
vote.sync.any.pred %p2, %p, -1;
selp.b32 %d, 1, 0, %p2;
vote.sync.all.pred %p2, !%p, -1;
@%p2 add.u32 %d, %d, 2;
vote.sync.uni.pred %p2, %p, -1;
@%p2 add.u32 %d, %d, 4;
)");
  EXPECT_EQ(out[0], 1u);
  out = result_of("sub.u32 %a, %l, 7;\nredux.sync.min.s32 %d, %a, -1;\n");
  EXPECT_EQ(out[9], static_cast<uint32_t>(-7));
  out = result_of("redux.sync.add.u32 %d, %l, -1;\n");
  EXPECT_EQ(out[9], 496u);
  // Halves of a warp, each by itself, and part of a warp alone.
  out = result_of(R"(setp.lt.u32 %p, %l, 16;
selp.b32 %a, 0xffff, 0xffff0000, %p;
redux.sync.max.u32 %d, %l, %a;
@%p redux.sync.add.u32 %d, %l, 0xffff;
bar.warp.sync -1;
)");
  EXPECT_EQ(out[3], 120u);
  EXPECT_EQ(out[20], 31u);
}

TEST(PtxInterpret, atomic_operations) {
  std::vector<uint8_t> out(64);
  PtxRun run;
  run.items = 64;
  run.groups = 3;
  run.shared = 16;
  const std::string body = R"(.reg .pred %p;
.reg .b32 %t, %a, %r;
.reg .b64 %q, %v;
.reg .f32 %f;
.reg .f64 %g;
ld.param.u64 %q, [p0];
mov.u32 %t, %tid.x;
atom.global.add.u32 %r, [%q], 1;
red.global.max.s32 [%q+4], %t;
mov.f32 %f, 0f3F000000;
red.global.add.f32 [%q+8], %f;
mov.f64 %g, 0d3FE0000000000000;
red.global.add.f64 [%q+16], %g;
cvt.u64.u32 %v, %t;
red.relaxed.gpu.global.add.u64 [%q+24], %v;
setp.eq.u32 %p, %t, 0;
@%p st.shared.u32 [shared], 0;
bar.sync 0;
atom.shared.add.u32 %a, [shared], 2;
bar.sync 0;
@%p ld.shared.u32 %a, [shared];
@%p atom.global.exch.b32 %r, [%q+32], %a;
@%p atom.acq_rel.gpu.global.cas.b32 %r, [%q+36], 0, 9;
@%p membar.gl;
@%p red.release.gpu.global.add.s32 [%q+40], -1;
@%p ld.acquire.gpu.global.s32 %r, [%q+40];
@%p st.release.gpu.global.s32 [%q+44], %r;
@%p fence.acq_rel.gpu;
ret;
)";
  const absl::Status status = run_ptx(ptx_text(body, 1), run, {&out});
  ASSERT_TRUE(status.ok()) << status;
  const auto words = values_of_bytes<int32_t>(out);
  EXPECT_EQ(words[0], 192);
  EXPECT_EQ(words[1], 63);
  EXPECT_EQ(values_of_bytes<float>(out)[2], 96.0f);
  EXPECT_EQ(values_of_bytes<double>(out)[2], 96.0);
  EXPECT_EQ(words[6], 3 * 63 * 32);
  EXPECT_EQ(words[8], 128);
  EXPECT_EQ(words[9], 9);
  EXPECT_EQ(words[10], -3);
  EXPECT_EQ(words[11], -3);
}

TEST(PtxInterpret, named_barriers) {
  // The first warp fills what the second one takes; barrier 2 says that it is full.
  PtxRun run;
  run.items = 64;
  run.shared = 128;
  const auto out = result_of(R"(shl.b32 %a, %l, 2;
mov.u32 %b, shared;
add.u32 %b, %b, %a;
setp.lt.u32 %p, %t, 32;
mov.u32 %d, 0;
@!%p bra take;
st.shared.b32 [%b], %l;
bar.arrive 2, 64;
bra end;
take:
bar.sync 2, 64;
ld.shared.b32 %d, [%b];
end:
barrier.sync 3;
)",
                             run);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(out[32 + i], i);
}

TEST(PtxInterpret, copies_land_when_they_are_waited_for) {
  std::vector<uint8_t> out(128), in(1024);
  std::vector<uint32_t> numbers(256);
  for (uint32_t i = 0; i < 256; ++i) numbers[i] = i + 1;
  in = bytes_of_values(numbers);
  const auto copied = [&](const std::string& wait, const std::string& extra, bool early) {
    PtxRun run;
    run.shared = 1024;
    run.options.deliver_early = early;
    const std::string body = std::string(kHead) + R"(ld.param.u64 %x, [p1];
mul.wide.u32 %o, %t, 16;
add.u64 %x, %x, %o;
shl.b32 %b, %t, 4;
mov.u32 %a, shared;
add.u32 %b, %a, %b;
cp.async.cg.shared.global.L2::128B [%b], [%x], 16)" +
                             extra + R"(;
cp.async.commit_group;
cp.async.ca.shared.global [%b+512], [%x+512], 4;
cp.async.commit_group;
)" + wait + R"(
ld.shared.b32 %c, [%b+8];
ld.shared.b32 %d, [%b+512];
mad.lo.u32 %d, %d, 65536, %c;
)" + kTail;
    const absl::Status status = run_ptx(ptx_text(body, 2), run, {&out, &in});
    EXPECT_TRUE(status.ok()) << status;
    return values_of_bytes<uint32_t>(out)[5];
  };
  const uint32_t first = 23, second = (128 + 21) << 16, poison = 0x7fc0dead;
  EXPECT_EQ(copied("cp.async.wait_group 0;", "", false), second + first);
  EXPECT_EQ(copied("cp.async.wait_all;", "", false), second + first);
  EXPECT_EQ(copied("cp.async.wait_group 1;", "", false), (poison << 16) + first);
  EXPECT_EQ(copied("cp.async.wait_group 2;", "", false), (poison << 16) + poison);
  EXPECT_EQ(copied("", "", false), (poison << 16) + poison);
  EXPECT_EQ(copied("", "", true), second + first);
  // Beyond what is read come zeros.
  EXPECT_EQ(copied("cp.async.wait_all;", ", 12", false), second + first);
  EXPECT_EQ(copied("cp.async.wait_all;", ", 8", false), second);
  EXPECT_EQ(copied("cp.async.wait_all;", ", 0", true), second);
}

TEST(PtxInterpret, errors_of_texts) {
  expect_error("frob.b32 %d, %a;\n", {"line ", "'frob.b32 %d, %a;'", "not known"});
  expect_error("add.f16x4 %d, %a, %b;\n", {"add.f16x4"});
  expect_error("add.sat.u32 %d, %a, %b;\n", {"no form .u32"});
  expect_error("add.u32.u32 %d, %a, %b;\n", {"modifier .u32 is not known"});
  expect_error("add.f32 %f, %f, %a;\nmov.u64 %x, %a;\n", {"%a is of type .b32, not .u64"});
  expect_error("add.u32 %d, %f, %a;\n", {"%f is of type .f32, not .u32"});
  expect_error("setp.lt.u32 %d, %a, %b;\n", {"%d is of type .b32, not .pred"});
  expect_error("add.u32 %d, %nowhere, %a;\n", {"%nowhere is not declared"});
  expect_error("add.u32 %d, %a;\n", {"number of operands"});
  expect_error(".reg .b16 %h;\nmov.u16 %h, 70000;\n", {"does not fit"});
  expect_error("div.f32 %f, %g, %g;\n", {"rounding"});
  expect_error("cvt.s32.f32 %d, %f;\n", {"rounding"});
  expect_error("cvt.rn.f32.f64 %f, %g;\n", {"%g is of type .f32"});
  expect_error("bra nowhere;\n", {"label nowhere is not declared"});
  expect_error("ld.global.v2.b32 %d, [%q];\n", {"number of registers"});
  expect_error("ld.global.b32 %d, [%a];\n", {"is no address"});
  expect_error("@%a bra nowhere;\n", {"%a is no predicate"});
  expect_error("mov.u32 %tid.x, 1;\n", {"cannot be written"});
  expect_error(".reg .b32 %t;\n", {"declared twice"});
  expect_error("add.u32 %d, %a, 09;\n", {"is no number"});
  expect_error("add.u32 %d, %a, 1 %b;\n", {"';' is missing"});
  expect_error("setp.lo.s32 %p, %a, %b;\n", {"no such comparison"});
}

TEST(PtxInterpret, texts_that_end_early) {
  const std::string head = ".version 7.5\n.target sm_80\n.address_size 64\n";
  for (const char* end : {".shared", ".shared .align 16", ".visible .entry k(.param",
                          ".visible .entry k() {\n.reg"}) {
    EXPECT_FALSE(parse_ptx(concat(head, end)).ok()) << end;
  }
}

TEST(PtxInterpret, errors_of_accesses) {
  PtxRun run;
  run.shared = 64;
  expect_error("ld.global.b32 %d, [%q+2];\n", {"not a multiple of 4", "block 0, thread 0"});
  expect_error("ld.global.b32 %d, [%q+4];\n", {"out of bounds of global", "thread 31"});
  expect_error("ld.global.b32 %d, [%q+-4];\n", {"out of bounds of global", "thread 0"});
  expect_error("ld.shared.b32 %d, [shared+64];\n", {"out of bounds of shared"}, run);
  expect_error("mov.u32 %a, 0;\nst.shared.b32 [%a], %l;\n", {"out of bounds of shared"}, run);
  expect_error("ld.shared.v2.b32 {%d, %a}, [shared+4];\n", {"not a multiple of 8"}, run);
  expect_error(".local .b8 m[8];\nld.local.b8 %d, [m+8];\n", {"out of bounds of local"});
  expect_error("ld.param.u64 %x, [p0+8];\n", {"out of bounds of parameter"});
  expect_error("cp.async.ca.shared.global [shared], [%q], 8;\n", {"not a multiple of 8"}, run);
  expect_error("cp.async.ca.shared.global [shared], [%q+4], 4;\n", {"out of bounds of global"},
               run);
  expect_error("mov.u32 %a, 5;\ncp.async.ca.shared.global [shared], [%q], 4, %a;\n",
               {"reads 5 bytes of a copy of 4"}, run);
  // Read-only memory.
  const auto module =
      parse_ptx(ptx_text(".reg .b64 %q;\nld.param.u64 %q, [p0];\nst.global.u64 [%q], %q;\n", 1));
  ASSERT_TRUE(module.ok()) << module.status();
  uint64_t word = 0;
  PtxLaunch launch;
  launch.entry = "k";
  launch.parameters = {ptx_pointer(&word)};
  const PtxMemory memory{reinterpret_cast<uint64_t>(&word), 8, false};
  EXPECT_NE(interpret_ptx(*module, launch, {memory}).message().find("read-only"),
            std::string::npos);
}

TEST(PtxInterpret, errors_of_registers_never_written) {
  expect_error("add.u32 %d, %a, 1;\n", {"reads %a, which was never written", "thread 0"});
  expect_error("setp.lt.u32 %p, %l, 9;\n@%p mov.u32 %d, 1;\n", {"%d", "never written", "thread 9"});
  expect_error("mov.u32 %d, 1;\n@%p mov.u32 %d, 2;\n", {"%p", "never written"});
}

TEST(PtxInterpret, errors_of_lanes_apart) {
  const std::string split = "setp.lt.u32 %p, %l, 9;\nmov.u32 %d, 0;\n";
  expect_error(split + "@%p bar.sync 0;\n", {"lanes differ in the predicate", "thread 9"});
  expect_error(split + "@%p bra one;\nbar.sync 0;\nbra two;\none:\nbar.sync 0;\ntwo:\n",
               {"only lanes 9-31 of the warp's come here", "lanes 0-8 are at line"});
  expect_error(split + "@%p ret;\nmov.u32 %a, %l;\nshfl.sync.bfly.b32 %d, %a, 1, 31, -1;\n",
               {"names a lane that has ended"});
  expect_error(split + "@%p bra end;\nshfl.sync.bfly.b32 %d, %l, 1, 31, 0xfffffe00;\nend:\n",
               {"takes the value of lane 8, which is not among the members"});
  expect_error(split + "@%p shfl.sync.bfly.b32 %d, %l, 1, 31, 0xff;\n",
               {"leaves out the lane itself", "thread 8"});
  expect_error(split + "@%p vote.sync.ballot.b32 %d, %p, -1;\n", {"names a lane that has ended"});
  expect_error(".reg .b32 %m<2>;\nldmatrix.sync.aligned.m8n8.x1.shared.b16 {%m0}, [shared];\n",
               {"needs all 32 lanes"}, {.items = 16, .shared = 512});
  // Loops that lanes leave at different times, with a barrier inside.
  expect_error(R"(mov.u32 %d, 0;
loop:
bar.sync 0;
add.u32 %d, %d, 1;
setp.lt.u32 %p, %d, %l;
@%p bra loop;
)",
               {"lanes 2-31 wait here for others, which end"});
}

TEST(PtxInterpret, errors_of_barriers) {
  PtxRun run;
  run.items = 96;
  const std::string body = "setp.lt.u32 %p, %t, 64;\nmov.u32 %d, 0;\n@%p bra wait;\nret;\nwait:\n";
  expect_error(body + "bar.sync 1;\n",
               {"deadlock", "block 0 warp 0 lanes 0-31", "barrier 1: 64 of 96 threads"}, run);
  expect_error(
      "mov.u32 %d, 0;\nsetp.lt.u32 %p, %t, 32;\n@%p bra a;\nbar.sync 1, 64;\nbra e;\n"
      "a:\nbar.sync 1, 96;\ne:\n",
      {"barrier 1 waits for"}, run);
  expect_error("mov.u32 %d, 0;\nbar.arrive 1, 96;\nbar.sync 0;\nbar.sync 1, 96;\n",
               {"deadlock", "barrier 1: 64 of 96"}, {.items = 32});
  expect_error("mov.u32 %d, 0;\nbar.sync 1, 40;\n", {"no multiple of a warp"}, run);
  expect_error("mov.u32 %d, 0;\nbar.sync 16;\n", {"there is no barrier 16"}, run);
  expect_error("mov.u32 %d, 0;\nbar.sync %l;\n", {"lanes give different values"}, run);
}

TEST(PtxInterpret, limits_steps_and_traps) {
  PtxRun run;
  run.options.step_limit = 1000;
  expect_error("mov.u32 %d, 0;\nL:\nbra L;\n", {"more than 1000 steps"}, run);
  expect_error("mov.u32 %d, 0;\ntrap;\n", {"traps"});
}

}  // namespace
}  // namespace lw
