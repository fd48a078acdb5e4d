// NVIDIA's assembler as a child: what it makes and says of kernels, and what becomes of one that
// hangs, fails, is missing or finds fault with what we print.
#include "src/build/simt/ptx/assembler/assemble.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "src/base/clock.h"
#include "tests/support/files.h"

namespace lw {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr const char* kTwicePtx = R"(.version 7.5
.target sm_80
.address_size 64
.extern .shared .align 1024 .b8 shared[];
.visible .entry twice(.param .u64 p0, .param .u64 p1)
.maxntid 128, 1, 1
.minnctapersm 1
{
  .shared .align 16 .b8 own[512];
  .reg .b32 %r<4>;
  .reg .b64 %rd<8>;
  .reg .f32 %f<3>;
  ld.param.u64 %rd1, [p0];
  ld.param.u64 %rd2, [p1];
  mov.u32 %r1, %tid.x;
  mul.wide.s32 %rd3, %r1, 4;
  add.s64 %rd4, %rd1, %rd3;
  add.s64 %rd5, %rd2, %rd3;
  ld.global.f32 %f1, [%rd4];
  mov.u32 %r2, own;
  shl.b32 %r3, %r1, 2;
  add.s32 %r2, %r2, %r3;
  st.shared.f32 [%r2], %f1;
  bar.sync 0;
  add.f32 %f2, %f1, %f1;
  st.global.f32 [%rd5], %f2;
  ret;
}
.visible .entry nothing() { ret; }
)";

// More live values than its threads have registers.
std::string spilling_ptx() {
  constexpr int kValues = 120;
  std::string text = ".version 7.5\n.target sm_80\n.address_size 64\n"
                     ".visible .entry spilling(.param .u64 p0)\n"
                     ".maxntid 1024, 1, 1\n.minnctapersm 2\n{\n"
                     "  .reg .b64 %rd<2>;\n  .reg .f32 %f<120>;\n  ld.param.u64 %rd1, [p0];\n";
  for (int i = 0; i < kValues; ++i) {
    const std::string n = std::to_string(i), at = std::to_string(4 * i);
    text += "  ld.volatile.global.f32 %f" + n + ", [%rd1+" + at + "];\n";
  }
  for (int i = 0; i < kValues; ++i) {
    const std::string n = std::to_string(kValues - 1 - i), at = std::to_string(4 * i);
    text += "  st.volatile.global.f32 [%rd1+" + at + "], %f" + n + ";\n";
  }
  return text + "  ret;\n}\n";
}

// The variable for one test, then again what it was.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* before = getenv(name)) before_ = before, was_set_ = true;
    setenv(name, value.c_str(), 1);
  }
  ~Variable() {
    if (was_set_) setenv(name_, before_.c_str(), 1);
    else unsetenv(name_);
  }

 private:
  const char* const name_;
  std::string before_;
  bool was_set_ = false;
};

// Programs of sh that are taken for ptxas, and a place for what is temporary.
class FakePtxas {
 public:
  FakePtxas() {
    std::string name = testing::TempDir() + "/lw_assemble_XXXXXX";
    if (mkdtemp(name.data()) != nullptr) folder_ = name;
    std::filesystem::create_directory(folder_ + "/tmp");
  }
  ~FakePtxas() { std::filesystem::remove_all(folder_); }
  // `body` is what it does but for --version.
  std::string make(const std::string& body) {
    const std::string path = folder_ + "/ptxas" + std::to_string(count_++);
    std::ofstream(path) << "#!/bin/sh\ncase \"$1\" in --version) echo asked >> '" + folder_ +
                               "/asked'\necho 'Cuda compilation tools, release 9.9, V9.9.99'\n"
                               "exit 0;; esac\n" + body;
    chmod(path.c_str(), 0700);
    return path;
  }
  std::string file(const std::string& name) const { return folder_ + "/" + name; }
  std::string temporary() const { return file("tmp"); }
  bool keeps_nothing() const { return std::filesystem::is_empty(temporary()); }

 private:
  std::string folder_;
  int count_ = 0;
};

// What `body` makes of the text.
absl::StatusOr<Assembled> assembled_by(const std::string& body, std::string_view ptx = kTwicePtx,
                                       double limit_s = kAssembleLimit) {
  FakePtxas fake;
  const Variable temporary("TMPDIR", fake.temporary());
  const Variable named("LOOPWRIGHT_PTXAS", fake.make(body));
  absl::StatusOr<Assembled> assembled = assemble(ptx, "sm_90a", limit_s);
  EXPECT_TRUE(fake.keeps_nothing());
  return assembled;
}

constexpr const char* kNoPtxas = "no ptxas is here";

TEST(Assemble, MakesACubinAndSaysFacts) {
  if (!find_ptxas().ok()) GTEST_SKIP() << kNoPtxas;
  const absl::StatusOr<Assembled> assembled = assemble(kTwicePtx, "sm_90a");
  ASSERT_TRUE(assembled.ok()) << assembled.status();
  EXPECT_EQ(assembled->cubin.substr(0, 4), "\177ELF");
  EXPECT_EQ(assembled->version, ptxas_version());
  EXPECT_THAT(assembled->version, testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
  ASSERT_EQ(assembled->facts.size(), 2u);
  const Assembled::Facts& twice = assembled->facts[0];
  EXPECT_EQ(twice.entry, "twice");
  EXPECT_GT(twice.registers, 4);
  EXPECT_LT(twice.registers, 32);
  EXPECT_EQ(twice.barriers, 1);
  EXPECT_GE(twice.shared_bytes, 512);      // and what aligns them
  EXPECT_EQ(twice.spill_store_bytes + twice.spill_load_bytes + twice.stack_bytes, 0);
  EXPECT_FALSE(twice.serialized || twice.short_of_registers);
  EXPECT_EQ(assembled->facts[1].entry, "nothing");
  EXPECT_EQ(assembled->facts[1].barriers, 0);
  // The bytes are the text's alone: no names of folders, no times.
  const absl::StatusOr<Assembled> again = assemble(kTwicePtx, "sm_90a");
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->cubin, assembled->cubin);
  EXPECT_THAT(assembled->cubin, Not(HasSubstr("kernel.ptx")));
}

TEST(Assemble, CountsSpills) {
  if (!find_ptxas().ok()) GTEST_SKIP() << kNoPtxas;
  const absl::StatusOr<Assembled> assembled = assemble(spilling_ptx(), "sm_80");
  ASSERT_TRUE(assembled.ok()) << assembled.status();
  ASSERT_EQ(assembled->facts.size(), 1u);
  EXPECT_GT(assembled->facts[0].spill_store_bytes, 0);
  EXPECT_GT(assembled->facts[0].spill_load_bytes, 0);
  EXPECT_GT(assembled->facts[0].stack_bytes, 0);
  EXPECT_LE(assembled->facts[0].registers, 32);
}

TEST(Assemble, QuotesLinesThatAreRefused) {
  if (!find_ptxas().ok()) GTEST_SKIP() << kNoPtxas;
  const std::string wrong =
      absl::StrReplaceAll(kTwicePtx, {{"add.f32 %f2, %f1, %f1", "add.f32 %f2, %f1, %none"}});
  const absl::Status refused = assemble(wrong, "sm_90a").status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("line 25: Unknown symbol '%none'\n    add.f32 %f2, %f1, %none;"));
  EXPECT_THAT(std::string(refused.message()), Not(HasSubstr("aborted")));
  EXPECT_EQ(assemble(kTwicePtx, "sm_12").status().code(), absl::StatusCode::kUnavailable);
}

TEST(Assemble, ListsCode) {
  if (!find_ptxas().ok()) GTEST_SKIP() << kNoPtxas;
  if (!find_nvdisasm().ok()) GTEST_SKIP() << "no nvdisasm is here";
  const absl::StatusOr<Assembled> assembled = assemble(kTwicePtx, "sm_90a");
  ASSERT_TRUE(assembled.ok()) << assembled.status();
  const absl::StatusOr<std::string> listing = disassemble(assembled->cubin);
  ASSERT_TRUE(listing.ok()) << listing.status();
  EXPECT_THAT(*listing, HasSubstr(".text.twice"));
  EXPECT_THAT(*listing, HasSubstr("FADD"));
  EXPECT_EQ(disassemble("no cubin").status().code(), absl::StatusCode::kInvalidArgument);
}

// A program that says what ptxas 13.0 says, then makes a cubin.
std::string reporting(const std::string& advisories) {
  return "cat >&2 <<'END'\n" + advisories +
         R"(ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'nothing' for 'sm_90a'
ptxas info    : Function properties for nothing
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 4 registers, 360 bytes cmem[0]
ptxas info    : Compiling entry function 'twice' for 'sm_90a'
ptxas info    : Function properties for twice
    432 bytes stack frame, 428 bytes spill stores, 424 bytes spill loads
ptxas info    : Used 168 registers, used 3 barriers, 432 bytes cumulative stack size, 96 bytes smem
END
printf cubin > kernel.cubin
)";
}

TEST(Assemble, TakesWhatACandidateIsToBlameForAsFacts) {
  const absl::StatusOr<Assembled> assembled = assembled_by(reporting(
      "ptxas info    : (C7512) Potential Performance Loss: wgmma.mma_async instructions are "
      "serialized due to insufficient register resources for the function 'twice'\n"));
  ASSERT_TRUE(assembled.ok()) << assembled.status();
  EXPECT_EQ(assembled->cubin, "cubin");
  EXPECT_EQ(assembled->version, "9.9.99");
  ASSERT_EQ(assembled->facts.size(), 2u);
  EXPECT_TRUE(assembled->facts[0].serialized);
  EXPECT_EQ(assembled->facts[0].registers, 168);
  EXPECT_EQ(assembled->facts[0].barriers, 3);
  EXPECT_EQ(assembled->facts[0].stack_bytes, 432);
  EXPECT_EQ(assembled->facts[0].spill_store_bytes, 428);
  EXPECT_EQ(assembled->facts[0].spill_load_bytes, 424);
  EXPECT_EQ(assembled->facts[0].shared_bytes, 96);
  EXPECT_FALSE(assembled->facts[1].serialized);
  EXPECT_EQ(assembled->facts[1].registers, 4);
  const absl::Status refused =
      assembled_by("echo \"ptxas error   : (C7602) Insufficient registers (24) to compile "
                   "instruction at line 20 in function twice.\" >&2\nexit 255\n").status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("\n    mov.u32 %r2, own;"));
}

TEST(Assemble, TakesWhatThePrinterIsToBlameForAsErrors) {
  for (const char* advisory : {
           "(C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine register "
           "count at entry around line 23.",
           "(C7517) warpgroup.wait is injected in around line 23 by compiler to allow use of "
           "registers defined by GMMA in function 'twice'",
           "(C7519) warpgroup.arrive is injected in around line 23 by compiler to allow use of "
           "registers in GMMA in function 'twice'",
           "(C7999) Potential Performance Loss: something at line 23"}) {
    const absl::Status status =
        assembled_by(reporting("ptxas info    : " + std::string(advisory) + "\n")).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << advisory;
    EXPECT_THAT(std::string(status.message()), HasSubstr("line 23: (C7"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("\n    st.shared.f32 [%r2], %f1;"));
  }
  EXPECT_EQ(assembled_by("printf cubin > kernel.cubin\n").status().code(),
            absl::StatusCode::kInternal);                // says nothing
  EXPECT_EQ(assembled_by("kill -SEGV $$\n").status().code(), absl::StatusCode::kInternal);
}

TEST(Assemble, NamesTheAdvisoriesOfTheRealOne) {
  if (!find_ptxas().ok()) GTEST_SKIP() << kNoPtxas;
  const absl::Status status = assemble(R"(.version 8.0
.target sm_90a
.address_size 64
.visible .entry k() { setmaxnreg.inc.sync.aligned.u32 232; ret; }
)", "sm_90a").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("C7508"));
}

TEST(Assemble, EndsWhatHangsAndWhatItStarted) {
  FakePtxas pid;
  const double begin = now();
  const absl::Status status = assembled_by("sleep 1000 & echo $! > '" + pid.file("pid") +
                                           "'\nwait\n", kTwicePtx, 0.5).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  EXPECT_LT(now() - begin, 30);
  const int sleeper = std::atoi(slurp(pid.file("pid")).c_str());
  ASSERT_GT(sleeper, 1);
  // Whoever inherits it may be slow to wait for it: until then it is a zombie.
  const auto gone = [&] {
    const std::string state = slurp("/proc/" + std::to_string(sleeper) + "/stat");
    return state.empty() || state.find(") Z ") != state.npos;
  };
  for (int i = 0; i < 1000 && !gone(); ++i) usleep(10000);
  EXPECT_TRUE(gone());
}

TEST(Assemble, SaysWhatIsMissing) {
  FakePtxas fake;
  {
    const Variable named("LOOPWRIGHT_PTXAS", fake.file("none"));
    EXPECT_EQ(ptxas_version(), "");
    const absl::Status status = assemble(kTwicePtx, "sm_90a").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(status.message()), HasSubstr("LOOPWRIGHT_PTXAS names '"));
  }
  // A file that no system runs; a program that is another's.
  std::ofstream(fake.file("text")) << "\177ELF";
  chmod(fake.file("text").c_str(), 0700);
  for (const std::string& other : {fake.file("text"), std::string("/bin/true")}) {
    const Variable named("LOOPWRIGHT_PTXAS", other);
    EXPECT_EQ(ptxas_version(), "");
    EXPECT_EQ(assemble(kTwicePtx, "sm_90a").status().code(), absl::StatusCode::kUnavailable);
  }
  const Variable named("LOOPWRIGHT_NVDISASM", fake.file("none"));
  EXPECT_EQ(disassemble("").status().code(), absl::StatusCode::kUnavailable);
}

TEST(Assemble, AsksForTheVersionOnce) {
  FakePtxas fake;
  const Variable named("LOOPWRIGHT_PTXAS", fake.make(reporting("")));
  EXPECT_EQ(ptxas_version(), "9.9.99");
  EXPECT_TRUE(assemble(kTwicePtx, "sm_90a").ok());
  EXPECT_EQ(ptxas_version(), "9.9.99");
  EXPECT_EQ(slurp(fake.file("asked")), "asked\n");
}

}  // namespace
}  // namespace lw
