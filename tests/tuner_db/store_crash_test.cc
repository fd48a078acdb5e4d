// What the SQLite store promises when things break: kill -9, a failing disk, a power failure and
// rotten bytes lose nothing that was acknowledged; and how fast it is meanwhile.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schedules/targets/target.h"
#include "tests/support/faulty_vfs.h"
#include "tests/support/program.h"
#include "tests/support/store_fixture.h"

namespace lw {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// ---- kill -9

// A child appends measurements, whose seeds count up, and acknowledges each over a pipe; it is
// killed at a random moment. All acknowledged ones are there, none twice, at most one that was not
// acknowledged.
TEST(Kill, LosesNothingAcknowledged) {
  Scratch scratch;
  const Key key = fill(scratch.file, 0);
  Rng rng(11);
  uint64_t next = 1;
  uint64_t total = 0;
  for (int round = 0; round < rounds_of(60); ++round) {
    Pipe acknowledged;
    const pid_t writer = child([&] {
      const auto store = *open_sqlite_store(scratch.file);
      for (uint64_t seed = next;; ++seed) {
        std::vector<Measurement> batch = {make_measurement(static_cast<int>(seed % 20), {5, 6, 7})};
        batch[0].seed = seed;
        CHECK(store->append(key, batch).ok());
        CHECK(write(acknowledged.write_end, &seed, sizeof seed) == sizeof seed);
      }
    });
    usleep(static_cast<useconds_t>(rng.below(60'000)));
    kill(writer, SIGKILL);
    wait_for(writer);
    close(std::exchange(acknowledged.write_end, open("/dev/null", O_WRONLY)));
    uint64_t last = next - 1;
    for (uint64_t seed = 0; read(acknowledged.read_end, &seed, sizeof seed) == sizeof seed;) {
      last = seed;
    }
    const auto store = *open_sqlite_store(scratch.file);
    const std::vector<Measurement> rows = *store->measurements(key);
    ASSERT_GE(rows.size(), last);
    ASSERT_LE(rows.size(), last + 1);
    for (size_t i = 0; i < rows.size(); ++i) ASSERT_EQ(rows[i].seed, i + 1);
    next = rows.size() + 1;
    total = rows.size();
    if (round % 10 == 9) {
      ASSERT_THAT(*store->check(), IsEmpty());
    }
  }
  EXPECT_GT(total, static_cast<uint64_t>(rounds_of(60)));
}

// ---- a failing disk

// Lets the n-th operation of a kind and all after it fail while a store is opened, filled and closed,
// for each n of the first 30 and one in seven of the others (of fewer rounds, as many fewer), until
// none fails. What was acknowledged is there when the disk works again.
void fail_everywhere(FaultyVfs::Fault fault) {
  FaultyVfs vfs;
  bool failed = true;
  int failures = 0;
  const int stride = std::max(1, 700 / rounds_of(100));
  for (int n = 0; failed; n += n < 30 ? 1 : stride) {
    ASSERT_LT(n, 3000);
    Scratch scratch;
    int acknowledged = 0;
    Key key = make_key(make_workload(128), make_target());
    vfs.fail(fault, n);
    absl::Status status;
    {
      auto store = open_sqlite_store(scratch.file, patience(0.1));
      status = store.status();
      if (store.ok()) status = (*store)->put_workload(make_workload(128));
      if (status.ok()) status = (*store)->put_target(key.target, make_target());
      for (int i = 0; i < 12 && status.ok(); ++i) {
        std::vector<Measurement> batch = {make_measurement(i, {1, 2, 3})};
        batch[0].detail = std::string(3000, 'd');
        status = (*store)->append(key, batch);
        acknowledged += status.ok();
      }
      if (!status.ok()) {
        ++failures;
        EXPECT_THAT(std::string(status.message()), HasSubstr("test.db"));
        EXPECT_EQ(status.code(), fault == FaultyVfs::Fault::kFull
                                     ? absl::StatusCode::kResourceExhausted
                                     : absl::StatusCode::kUnavailable) << status;
      }
      failed = vfs.has_failed();
      vfs.heal();
      if (store.ok() && acknowledged > 0) {                 // the same Store goes on
        std::vector<Measurement> batch = {make_measurement(99, {1})};
        absl::Status again = (*store)->append(key, batch);
        ASSERT_TRUE(again.ok()) << n << " " << again;
        ++acknowledged;
      }
    }
    const auto store = open_sqlite_store(scratch.file);
    ASSERT_TRUE(store.ok()) << n << " " << store.status();
    ASSERT_EQ((*store)->measurements(key)->size(), static_cast<size_t>(acknowledged)) << n;
    ASSERT_THAT(*(*store)->check(), IsEmpty());
  }
  EXPECT_GT(failures, 10);
}

TEST(Disk, Full) { fail_everywhere(FaultyVfs::Fault::kFull); }
TEST(Disk, WriteError) { fail_everywhere(FaultyVfs::Fault::kWrite); }
TEST(Disk, ShortWrite) { fail_everywhere(FaultyVfs::Fault::kShortWrite); }
TEST(Disk, FailedSync) { fail_everywhere(FaultyVfs::Fault::kSync); }

// ---- power loss

// What a disk may hold when the power fails after the first `count` operations: of each file what
// was synced, and of what was not, any part.
std::map<std::string, std::string> after_power_loss(
    const std::vector<FaultyVfs::Operation>& operations, size_t count, Rng& rng) {
  using Operation = FaultyVfs::Operation;
  std::map<std::string, size_t> synced;                     // file: operations that are safe
  for (size_t i = 0; i < count; ++i) {
    if (operations[i].kind == Operation::kSync) synced[operations[i].file] = i;
  }
  std::map<std::string, std::string> files;
  for (size_t i = 0; i < count; ++i) {
    const Operation& operation = operations[i];
    if (operation.kind == Operation::kDelete) {             // SQLite syncs the directory with it
      files.erase(operation.file);
      continue;
    }
    const bool is_safe = i < synced[operation.file];
    std::string& bytes = files[operation.file];
    const size_t offset = static_cast<size_t>(operation.offset);
    if (!is_safe && rng.below(2) == 0) continue;
    if (operation.kind == Operation::kTruncate) bytes.resize(offset);
    if (operation.kind != Operation::kWrite) continue;
    size_t size = operation.bytes.size();
    if (!is_safe && rng.below(4) == 0) size = size / 1024 * 512;  // torn at a sector
    bytes.resize(std::max(bytes.size(), offset + size));
    bytes.replace(offset, size, operation.bytes, 0, size);
  }
  return files;
}

TEST(PowerLoss, LosesNothingAcknowledged) {
  FaultyVfs vfs;
  vfs.record();
  std::vector<size_t> acknowledged;                         // operations done at each
  std::vector<FaultyVfs::Operation> operations;
  Key key;
  Scratch scratch;
  {
    const auto store = *open_sqlite_store(scratch.file);
    key = put_key(*store);
    for (int i = 0; i < 250; ++i) {                         // past a checkpoint, every 1000 pages
      std::vector<Measurement> batch = {make_measurement(i % 50, {1, 2, 3})};
      batch[0].detail = std::string(9000, 'd');
      ASSERT_TRUE(store->append(key, batch).ok());
      acknowledged.push_back(vfs.operations().size());
    }
    operations = vfs.operations();
  }
  int checkpointed = 0;
  for (const auto& operation : operations) {
    checkpointed += operation.kind == FaultyVfs::Operation::kSync && operation.file == scratch.file;
  }
  EXPECT_GT(checkpointed, 1);
  Rng rng(23);
  for (int round = 0; round < rounds_of(150); ++round) {
    const size_t first = acknowledged[0];
    const size_t count =
        first + static_cast<size_t>(rng.below(static_cast<int64_t>(operations.size() - first)));
    Scratch after;
    for (const auto& [file, bytes] : after_power_loss(operations, count, rng)) {
      spill(after.file + file.substr(scratch.file.size()), bytes);
    }
    const size_t safe = static_cast<size_t>(
        std::upper_bound(acknowledged.begin(), acknowledged.end(), count) - acknowledged.begin());
    const auto store = open_sqlite_store(after.file);
    ASSERT_TRUE(store.ok()) << store.status();
    const size_t found = (*store)->measurements(key)->size();
    ASSERT_GE(found, safe);
    ASSERT_LE(found, safe + 1);
    if (round % 5 == 0) {
      ASSERT_THAT(*(*store)->check(), IsEmpty());
    }
  }
}

// ---- rotten bytes

// Whatever the bytes, opening, reading and checking end with values or errors.
TEST(Rot, NeverCrashes) {
  Scratch scratch;
  const Key key = fill(scratch.file, 12);
  const std::string sound = slurp(scratch.file);
  Rng rng(5);
  int refused = 0, reported = 0, harmless = 0;
  for (int round = 0; round < rounds_of(250); ++round) {
    std::string bytes = sound;
    for (int64_t flips = 1 + rng.below(8); flips > 0; --flips) {
      // Half of the flips where pages keep their headers and cell pointers.
      const int64_t page = rng.below(static_cast<int64_t>(bytes.size()) / 4096);
      const int64_t offset = page * 4096 + (rng.below(2) == 0 ? rng.below(140) : rng.below(4096));
      bytes[static_cast<size_t>(offset)] ^= static_cast<char>(1 << rng.below(8));
    }
    if (rng.below(10) == 0) bytes.resize(static_cast<size_t>(rng.below(int64_t(bytes.size()))));
    const std::string file = absl::StrCat(scratch.directory, "/", round, ".db");
    spill(file, bytes);
    auto store = open_sqlite_store(file, patience(0.1));
    if (!store.ok()) {
      ++refused;
      EXPECT_NE(store.status().code(), absl::StatusCode::kInternal);
      continue;
    }
    (*store)->measurements(key).IgnoreError();
    (*store)->best(key).IgnoreError();
    (*store)->keys().IgnoreError();
    (*store)->workloads().IgnoreError();
    const auto lines = (*store)->check();
    (!lines.ok() || !lines->empty() ? reported : harmless) += 1;
    std::vector<Measurement> batch = {make_measurement(77, {1})};
    (*store)->append(key, batch).IgnoreError();
    (*store)->prune(1, 0).IgnoreError();
    store->reset();
    std::filesystem::remove(file);
  }
  std::printf("refused %d, reported %d, harmless %d\n", refused, reported, harmless);
  EXPECT_GT(refused, rounds_of(10));
  EXPECT_GT(reported, rounds_of(30));
}

// ---- speed

TEST(Speed, BestOfTenThousandMeasurements) {
  Scratch scratch(std::filesystem::temp_directory_path());
  const auto store = *open_sqlite_store(scratch.file);
  const Key key = put_key(*store);
  Rng rng(1);
  std::vector<Measurement> batch;
  for (int i = 0; i < 10'000; ++i) {
    const double time = 100 + 100 * rng.uniform();
    batch.push_back(make_measurement(i, {time, time * 1.01, time * 0.99}));
  }
  ASSERT_TRUE(store->append(key, batch).ok());
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(store->best(key).ok());
  const auto middle = std::chrono::steady_clock::now();
  for (int i = 0; i < 50; ++i) {
    std::vector<Measurement> one = {make_measurement(i, {150, 151})};
    ASSERT_TRUE(store->append(key, one).ok());
  }
  using Milliseconds = std::chrono::duration<double, std::milli>;
  const double best_ms = Milliseconds(middle - start).count() / 100;
  const double append_ms = Milliseconds(std::chrono::steady_clock::now() - middle).count() / 50;
  std::printf("best() %.3f ms, durable append() %.2f ms\n", best_ms, append_ms);
  EXPECT_LT(best_ms, 10);                                   // 0.01 when nothing else runs
}

}  // namespace
}  // namespace lw
