// Which places the draft gives schedules that others have published as their best, among what is drawn
// of the same space, and how many schedules it judges a second; without a GPU.
//   lw_gpu_published [--draws 20000] [--json]
#include <algorithm>
#include <iostream>
#include <map>

#include "CLI/CLI.hpp"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "cost_model/cost_model.h"
#include "nlohmann/json.hpp"
#include "schedules/steps.h"
#include "schedules/targets/target.h"
#include "src/base/clock.h"
#include "src/base/rng.h"
#include "src/expr/expr.h"

namespace lw {
namespace {

// Of a step's numbers those that say which schedule it is.
struct Said {
  const char* step;
  std::vector<int64_t> numbers;
};

struct Published {
  const char* words;
  const char* sketch;                      // a part of its name
  std::vector<Said> steps;                 // the tile first
  const char* source;
};

// "fast.cu": github.com/pranjalssh/fast.cu, its README; "CUTLASS": CUTLASS 3's cooperative kernels.
const std::vector<Published>& all_published() {
  static const std::vector<Published> all = {
      {"matmul M=8192 N=8192 K=8192 T=bf16", "four sub-groups",
       {{"wide_tile", {2, 256}}, {"pipeline", {4}}, {"cluster", {2}}, {"producer", {1}}}, "fast.cu"},
      {"matmul M=6144 N=6144 K=6144 T=bf16", "four sub-groups",
       {{"wide_tile", {2, 256}}, {"pipeline", {4}}, {"cluster", {2}}, {"producer", {1}}}, "fast.cu"},
      {"matmul M=4096 N=4096 K=4096 T=f16", "four sub-groups",
       {{"wide_tile", {2, 256}}, {"cluster", {2}}, {"producer", {1}}}, "CUTLASS"}};
  return all;
}

using Key = std::vector<std::vector<int64_t>>;
using Times = std::map<Key, double>;

// The numbers that the trace has where the published one has some, step by step.
Key key_of(const Trace& trace, const std::vector<Said>& steps) {
  Key key;
  for (const Said& said : steps) {
    const auto step = std::find_if(trace.begin(), trace.end(), [&](const Step& s) {
      return std::string_view(s.kind->name) == said.step;
    });
    std::vector<int64_t>& own = key.emplace_back();
    if (step == trace.end()) continue;
    const size_t count = std::min(said.numbers.size(), step->numbers.size());
    own.assign(step->numbers.begin(), step->numbers.begin() + static_cast<int64_t>(count));
  }
  return key;
}

// 1: none is faster. 0: it is not there.
int64_t place_of(const Times& times, const Key& key) {
  const auto own = times.find(key);
  if (own == times.end()) return 0;
  return 1 + std::count_if(times.begin(), times.end(),
                           [&](const auto& other) { return other.second < own->second; });
}

std::string text_of(const Key& key, const std::vector<Said>& steps) {
  std::string text;
  for (size_t i = 0; i < key.size(); ++i) {
    text += i == 0 ? "" : " ";
    text += steps[i].step;
    for (const int64_t number : key[i]) absl::StrAppendFormat(&text, " %d", number);
  }
  return text;
}

absl::Status tell(const Published& published, int64_t draws, bool json) {
  ASSIGN_OR_RETURN(const Target target, find_target("nvidia_sm90a"));
  const std::vector<std::string> words = absl::StrSplit(published.words, ' ');
  ASSIGN_OR_RETURN(Program program, load_workload(words));
  const Nest start = make_nest(std::make_shared<const Program>(std::move(program)),
                               std::make_shared<const Target>(target), 1);
  std::vector<Sketch> space = make_space(start);
  std::erase_if(space, [&](const Sketch& sketch) {
    return sketch.name.find(published.sketch) == std::string::npos;
  });
  if (space.empty()) return absl::NotFoundError("no such sketch");
  Key wanted;
  for (const Said& said : published.steps) wanted.push_back(said.numbers);
  Times tiles, all;
  Rng rng(1);
  const double begin = now();
  int64_t drafted = 0;
  for (int64_t i = 0; i < draws; ++i) {
    const Sketch& sketch = space[static_cast<size_t>(rng.below(std::ssize(space)))];
    const absl::StatusOr<Sample> drawn = sample(start, sketch, rng);
    if (!drawn.ok()) continue;
    ++drafted;
    const double us = draft_us(drawn->nest);
    const Key key = key_of(drawn->trace, published.steps);
    for (auto [times, own] : {std::pair(&tiles, Key{key[0]}), std::pair(&all, key)}) {
      const auto [known, is_new] = times->try_emplace(own, us);
      if (!is_new) known->second = std::min(known->second, us);
    }
  }
  const double rate = static_cast<double>(drafted) / (now() - begin);
  const auto best = std::min_element(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return a.second < b.second;
  });
  const auto own = all.find(wanted);
  const double ratio = own == all.end() ? 0 : own->second / best->second;
  const int64_t of_tiles = place_of(tiles, {wanted[0]}), of_all = place_of(all, wanted);
  if (json) {
    std::cout << nlohmann::json{{"case", published.words}, {"source", published.source},
                                {"tile_place", of_tiles}, {"tiles", tiles.size()},
                                {"place", of_all}, {"schedules", all.size()}, {"ratio", ratio},
                                {"drafts_per_s", rate}}
              << std::endl;
    return absl::OkStatus();
  }
  std::cout << absl::StrFormat(
      "%s\n  %s: %s\n  its tile is number %d of %d, all of it number %d of %d, %.3f of the first's "
      "time\n  the first: %s\n  %.0f drawn and drafted a second\n",
      published.words, published.source, text_of(wanted, published.steps), of_tiles, tiles.size(),
      of_all, all.size(), ratio, text_of(best->first, published.steps), rate);
  return absl::OkStatus();
}

}  // namespace
}  // namespace lw

int main(int argc, char** argv) {
  int64_t draws = 20000;
  bool json = false;
  CLI::App app("Which places the draft gives what others have published");
  app.add_option("--draws", draws, "of each case")->capture_default_str();
  app.add_flag("--json", json, "a line each, for scripts");
  CLI11_PARSE(app, argc, argv);
  for (const lw::Published& published : lw::all_published()) {
    const absl::Status status = lw::tell(published, draws, json);
    if (status.ok()) continue;
    std::fprintf(stderr, "%s: %s\n", published.words, std::string(status.message()).c_str());
    return 1;
  }
  return 0;
}
