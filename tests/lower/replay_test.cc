// Kernels do not change unless they are meant to. tests/replay/*.replay hold recorded schedules of
// the suites and the library, on every target, each with hashes of the kernel and of the object
// code that it yields: a change of lowering or of code generation shows here, schedule by schedule,
// and what is not meant to change anything can be seen to change nothing. A file holds
//   === words of the workload
//   --- threads N on TARGET [winograd]
//   steps
//   --- kernel HASH [object HASH]
// and says on its first line which backend made the objects: they are compared where that is this
// one.
//
// To see what changed: every kernel met is kept in the build folder under its hash, so that where a
// test of this build folder passed before the change, the first difference is shown as a diff.
// LOOPWRIGHT_UPDATE=1 records new hashes; without the file, new schedules too.
//
// tests/goldens/*.test hold a few whole kernels to read.
#include <unistd.h>

#include <iostream>
#include <map>

#include "src/base/hash.h"
#include "src/base/rng.h"
#include "src/build/build.h"
#include "src/lower/lower.h"
#include "tests/support/kernel_text.h"
#include "tests/support/text_cases.h"

namespace lw {
namespace {

constexpr char kCorpus[] = LW_SOURCE_DIR "/tests/replay/";
constexpr int64_t kMostStatements = 400;   // of most kernels: the whole corpus takes seconds
constexpr int64_t kMostOfFew = 4000;       // and of one in kFew
constexpr int kFew = 16;
constexpr int kObjectsOfEach = 3;          // one of so many is compiled

std::string short_hash(std::string_view bytes) { return sha256(bytes).substr(0, 16); }

std::string backend_version() { return (*find_backend("x86_64"))->version(); }

absl::StatusOr<Program> titled_program(const std::string& title) {
  std::vector<std::string> words;
  for (size_t at = 0; at < title.size();) {
    const size_t end = std::min(title.find(' ', at), title.size());
    words.push_back(title.substr(at, end - at));
    at = end + 1;
  }
  if (words[0].find('/') != std::string::npos) words[0].insert(0, LW_SOURCE_DIR "/");
  return load_workload(words);
}

absl::StatusOr<Kernel> replayed(const Nest& start, const std::string& steps) {
  ASSIGN_OR_RETURN(const Trace trace, parse_trace(steps));
  ASSIGN_OR_RETURN(const Nest nest, replay(start, trace));
  return lower(nest);
}

// The texts of kernels met in this build folder, by their hash.
std::filesystem::path kept(const std::string& hash) {
  return concat(LW_BINARY_DIR "/replay/", hash, ".txt");
}

void keep(const std::string& hash, const std::string& text) {
  const std::filesystem::path path = kept(hash);
  if (std::filesystem::exists(path)) return;
  std::filesystem::create_directories(path.parent_path());
  const std::filesystem::path part = concat(path.string(), ".", std::to_string(getpid()));
  std::ofstream(part) << text;
  std::filesystem::rename(part, path);     // whole, whoever else keeps it
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

// What lies between the lines that both begin with and those that both end with, a screen of it.
std::string difference(const std::string& before, const std::string& after) {
  constexpr size_t kScreen = 12, kAround = 3;
  const std::vector<std::string> old = lines_of(before), now = lines_of(after);
  size_t first = 0, last = 0;
  const size_t most = std::min(old.size(), now.size());
  while (first < most && old[first] == now[first]) ++first;
  while (last < most - first && old[old.size() - 1 - last] == now[now.size() - 1 - last]) ++last;
  std::string text = concat("at line ", std::to_string(first + 1), "\n");
  for (size_t i = first - std::min(first, kAround); i < first; ++i)
    text += concat("  ", now[i], "\n");
  const auto add = [&](const char* sign, const std::vector<std::string>& lines) {
    const size_t end = lines.size() - last, shown = std::min(end, first + kScreen);
    for (size_t i = first; i < shown; ++i) text += concat(sign, lines[i], "\n");
    if (end > shown) text += concat(sign, "... ", std::to_string(end - shown), " more lines\n");
  };
  add("- ", old);
  add("+ ", now);
  return text;
}

std::string shown(const std::string& hash_before, const std::string& after) {
  std::ifstream file(kept(hash_before));
  if (!file) return concat("not met in this build folder before; now\n", after.substr(0, 4000));
  const std::string before((std::istreambuf_iterator<char>(file)), {});
  return difference(before, after);
}

absl::StatusOr<Kernel> replayed(const TextCase& c) {
  ASSIGN_OR_RETURN(const Nest start, start_of(titled_program(c.title), c.sections[0].header));
  return replayed(start, c.sections[0].text);
}

absl::StatusOr<std::string> object_of(const Kernel& kernel, const std::string& target_name) {
  ASSIGN_OR_RETURN(const Target target, find_target(target_name));
  ASSIGN_OR_RETURN(const Backend* backend, find_backend(target.architecture));
  ASSIGN_OR_RETURN(const Artifact artifact, backend->build(kernel, target));
  return short_hash(artifact.bytes);
}

std::string place(const TextCase& c) { return concat(c.title, " (", c.sections[0].header, ")"); }

std::string first_line(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

TEST(Replay, KernelsAreThoseRecorded) {
  std::string differ, first;
  int kernels = 0, different = 0;
  for (const std::filesystem::path& path : text_files(kCorpus, ".replay")) {
    std::string rewritten = concat(backend_version(), "\n");
    for (TextCase c : read_cases(path)) {
      const absl::StatusOr<Kernel> kernel = replayed(c);
      ++kernels;
      if (!kernel.ok()) {                  // dropped where the expectations are rewritten
        ++different;
        differ += concat("  ", place(c), ": ", message_of(kernel.status()), "\n");
        continue;
      }
      expect_text_says_all(*kernel, place(c));
      std::string& outcome = c.sections[1].header;
      const std::string text = print(*kernel), now = short_hash(text);
      const std::string before = word_after(outcome, "kernel", "");
      keep(now, text);
      if (now != before) {
        ++different;
        differ += concat("  ", place(c), "\n");
        if (first.empty()) first = concat(place(c), "\n", c.sections[0].text, shown(before, text));
      }
      if (!rewrites_expectations()) continue;
      const bool has_object = outcome.find(" object ") != std::string::npos;
      outcome = concat("kernel ", now);
      if (has_object) {
        const absl::StatusOr<std::string> object =
            object_of(*kernel, word_after(c.sections[0].header, "on", ""));
        ASSERT_TRUE(object.ok()) << object.status();
        outcome += concat(" object ", *object);
      }
      rewritten += to_text(c);
    }
    if (rewrites_expectations()) std::ofstream(path) << rewritten;
  }
  EXPECT_GE(kernels, 400);
  if (rewrites_expectations()) {
    std::cout << different << " of " << kernels << " changed\n" << differ;
  } else {
    EXPECT_EQ(different, 0) << "of " << kernels << " kernels:\n"
                            << differ << "\nthe first: " << first;
  }
}

TEST(Replay, ObjectCodeIsThatRecorded) {
  std::string differ, others;
  int objects = 0;
  for (const std::filesystem::path& path : text_files(kCorpus, ".replay")) {
    if (const std::string made_by = first_line(path); made_by != backend_version()) {
      others += concat(" ", path.filename().string(), " (", made_by, ")");
      continue;
    }
    for (const TextCase& c : read_cases(path)) {
      const std::string& outcome = c.sections[1].header;
      if (outcome.find(" object ") == std::string::npos) continue;
      const absl::StatusOr<Kernel> kernel = replayed(c);
      // What differs as a kernel is the other test's.
      if (!kernel.ok() || short_hash(print(*kernel)) != word_after(outcome, "kernel", "")) continue;
      ++objects;
      const absl::StatusOr<std::string> object =
          object_of(*kernel, word_after(c.sections[0].header, "on", ""));
      ASSERT_TRUE(object.ok()) << place(c) << object.status();
      if (*object != word_after(outcome, "object", "")) differ += concat("  ", place(c), "\n");
    }
  }
  EXPECT_EQ(differ, "") << "of " << objects << " kernels that are as recorded";
  if (!others.empty()) {
    GTEST_SKIP() << "[SKIP] this is " << backend_version() << "; recorded by another:" << others;
  }
}

// What the corpus is drawn from, where a file of it is not there.
std::vector<std::string> titles(const std::string& corpus) {
  std::vector<std::string> list;
  const auto add_file = [&](const std::string& file) {
    std::ifstream in(concat(LW_SOURCE_DIR "/", file));
    for (std::string line; std::getline(in, line);) {
      if (!line.starts_with("op ")) continue;
      list.push_back(concat(file, ":", line.substr(3, line.find('(') - 3)));
    }
  };
  if (corpus == "table") add_file("bench/workloads/table.te");
  if (corpus == "examples") add_file("examples/operators.te");
  if (corpus == "library") {
    for (const OpDefinition& op : builtin_ops()) list.push_back(op.name);
  }
  if (corpus == "suite") {
    const auto suite = load_suite(LW_SOURCE_DIR "/bench/workloads/ansor.json", {});
    for (const SuiteCase& c : *suite) {
      std::string title;
      for (const std::string& word : c.words) title += concat(title.empty() ? "" : " ", word);
      list.push_back(title);
    }
  }
  if (corpus == "edges") {                 // extents that no tile divides
    list = {"matmul M=37 N=53 K=19", "matmul M=3 N=129 K=65", "matmul M=130 N=1 K=70",
            "conv2d H=13 W=11 CI=5 CO=19", "conv2d H=9 W=9 CI=16 CO=24 stride=2",
            "conv2d_transpose H=7 W=9 CI=6 CO=18 stride=3", "softmax M=7 N=67",
            "layer_norm M=5 N=77", "transpose M=37 N=70", "row_sum M=9 N=1003"};
  }
  if (corpus == "narrow") {
    list = {"matmul_u8i8 M=24 N=48 K=64", "matmul_u8i8 M=7 N=33 K=30", "dense_u8i8 M=16 N=64 K=128",
            "dense_i8 M=12 N=48 K=64", "matmul M=16 N=32 K=64 T=bf16",
            "matmul M=13 N=35 K=22 T=bf16", "matmul M=16 N=40 K=30 T=f16",
            "matmul M=9 N=24 K=20 T=i16"};
  }
  return list;
}

// `draws` schedules of each, spread over sketches, targets and threads.
std::string draw_corpus(const std::string& corpus, int draws) {
  const std::vector<std::string> targets = {"x86_avx512", "x86_avx2",        "aarch64_neon",
                                            "x86_sse2",   "x86_avx512_vnni", "x86_avx512_bf16",
                                            "x86_avx2_vnni"};
  Rng rng(hash64(corpus));
  std::string text = concat(backend_version(), "\n");
  int number = 0, few = 0;
  for (const std::string& title : titles(corpus)) {
    for (int draw = 0; draw < draws; ++draw) {
      // The last three differ from others in what they do with narrow types only.
      const std::string& target =
          targets[corpus == "narrow" ? 1 + rng.below(6) : rng.below(4)];
      const bool winograd = title.starts_with("conv") && draw % 4 == 3;
      const std::string header = concat("threads ", std::to_string(1 + 3 * (draw % 2)), " on ",
                                        target, winograd ? " winograd" : "");
      const absl::StatusOr<Nest> start = start_of(titled_program(title), header);
      if (!start.ok()) ADD_FAILURE() << title << ": " << start.status();
      if (!start.ok()) break;
      const std::vector<Sketch> space = make_space(*start);
      for (int attempt = 0; attempt < 60; ++attempt) {
        const int64_t which = winograd && attempt < 20 ? space.size() - 1 : rng.below(space.size());
        const absl::StatusOr<Sample> sample = lw::sample(*start, space[which], rng);
        if (!sample.ok()) continue;
        const absl::StatusOr<int64_t> statements = count_statements(sample->nest);
        if (!statements.ok()) continue;
        const bool large = *statements > kMostStatements;
        if (large && (*statements > kMostOfFew || few >= kFew)) continue;
        const absl::StatusOr<Kernel> kernel = lower(sample->nest);
        if (!kernel.ok()) continue;
        few += large;
        const std::string printed = print(*kernel);
        keep(short_hash(printed), printed);
        TextCase c{title, "", {{header, to_text(sample->trace)},
                               {concat("kernel ", short_hash(printed)), ""}}};
        if (number++ % kObjectsOfEach == 0) {
          const absl::StatusOr<std::string> object = object_of(*kernel, target);
          if (!object.ok()) ADD_FAILURE() << title << object.status();
          else c.sections[1].header += concat(" object ", *object);
        }
        text += to_text(c);
        break;
      }
    }
  }
  return text;
}

TEST(Replay, DrawsWhatIsNotThere) {
  const std::map<std::string, int> corpora = {
      {"suite", 2}, {"table", 5}, {"library", 4}, {"examples", 5}, {"edges", 6}, {"narrow", 8}};
  for (const auto& [corpus, draws] : corpora) {
    const std::string path = concat(kCorpus, corpus, ".replay");
    if (rewrites_expectations() && !std::filesystem::exists(path)) {
      const std::string text = draw_corpus(corpus, draws);
      std::ofstream(path) << text;
    }
    EXPECT_TRUE(std::filesystem::exists(path)) << path;
  }
}

TEST(Replay, KernelsToRead) {
  expect_cases(LW_SOURCE_DIR "/tests/goldens", [](TextCase c) {
    const absl::StatusOr<Nest> start = start_of(c, c.sections[0].header);
    const absl::StatusOr<Kernel> kernel =
        start.ok() ? replayed(*start, c.sections[0].text) : start.status();
    EXPECT_TRUE(kernel.ok() && verify(*kernel).ok()) << c.title << ": " << kernel.status();
    c.sections[1] = {"kernel", kernel.ok() ? print(*kernel) : ""};
    return c;
  });
}

}  // namespace
}  // namespace lw
