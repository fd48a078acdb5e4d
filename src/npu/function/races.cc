#include "src/npu/function/races.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_format.h"
#include "src/base/message.h"
#include "src/npu/isa/text.h"

namespace lw::npu {

RaceDetector::RaceDetector(const Program& program) : program_(program) {
  std::array<std::vector<std::pair<int64_t, int64_t>>, kPlaces> hulls;
  for (const Instruction& one : program) {
    for (const Access& access : accesses_of(one)) {
      std::vector<std::pair<int64_t, int64_t>>& of = hulls[static_cast<int>(access.place)];
      const std::pair<int64_t, int64_t> hull = {access.base, access.end()};
      if (of.empty() || of.back() != hull) of.push_back(hull);
    }
  }
  for (int place = 0; place < kPlaces; ++place) {
    std::sort(hulls[place].begin(), hulls[place].end());
    std::vector<Area>& areas = areas_[place];
    for (const auto& [begin, end] : hulls[place]) {
      if (areas.empty() || begin >= areas.back().end) areas.push_back({begin, end, 0, {}});
      areas.back().end = std::max(areas.back().end, end);
    }
  }
  for (const Instruction& one : program) {
    for (const Access& access : accesses_of(one)) {
      Area& area = area_of(access);
      if (area.granule == 1) continue;
      area.granule = std::gcd(std::gcd(area.granule, access.base - area.begin), access.length);
      for (int d = 0; d < 3; ++d) {
        if (access.count[d] > 1) area.granule = std::gcd(area.granule, access.stride[d]);
      }
    }
  }
}

RaceDetector::Area& RaceDetector::area_of(const Access& access) {
  std::vector<Area>& areas = areas_[static_cast<int>(access.place)];
  return *(std::upper_bound(areas.begin(), areas.end(), access.base,
                            [](int64_t at, const Area& area) { return at < area.begin; }) - 1);
}

void RaceDetector::begin(uint32_t index, const Clock& done, std::vector<Race>* races) {
  const Accesses accesses = accesses_of(program_[index]);
  for (const Access& access : accesses) look(index, access, done, races);
}

void RaceDetector::look(uint32_t index, const Access& access, const Clock& done,
                        std::vector<Race>* races) {
  Area& area = area_of(access);
  const int own = static_cast<int>(chain_of(program_[index]));
  const Engine engine = program_[index].op().engine;
  Access granules = access;                // the same, in granules of the area
  granules.base = (access.base - area.begin) / area.granule;
  granules.length /= area.granule;
  for (int64_t& stride : granules.stride) stride /= area.granule;
  // Against the writes of others, and their reads if this writes.
  for (int kind = access.write ? 0 : 1; kind < 2; ++kind) {
    for (int chain = 0; chain < kChains; ++chain) {
      const Shadow* const last = area.last[kind][chain].get();
      if (last == nullptr || chain == own) continue;
      if (kind == 0 && engine_of(static_cast<Chain>(chain)) == engine) continue;
      bool found = false;
      granules.each_run([&](int64_t begin, int64_t end) {
        if (found) return;
        const uint32_t most = last->latest(begin, end);
        if (most <= done[chain]) return;
        found = true;
        int64_t first = begin;
        while (last->at(first) != most) ++first;
        int64_t after = first + 1;
        while (after < end && last->at(after) == most) ++after;
        races->push_back({most - 1, index, kind == 1, access.write, access.place,
                          area.begin + first * area.granule, area.begin + after * area.granule});
      });
    }
  }
  std::unique_ptr<Shadow>& mine = area.last[access.write ? 1 : 0][own];
  if (mine == nullptr) mine = std::make_unique<Shadow>((area.end - area.begin) / area.granule);
  granules.each_run([&](int64_t begin, int64_t end) { mine->fill(begin, end, index + 1); });
}

std::string describe(const Program& program, const Race& race) {
  const auto side = [&](uint32_t index, bool writes) {
    return concat("instruction ", index, " (", print_instruction(program[index]), ") ",
                  writes ? "writes" : "reads");
  };
  const std::string_view from = name_of(program[race.first].op().engine);
  const std::string_view to = name_of(program[race.second].op().engine);
  return absl::StrFormat(
      "race: %s %s [0x%x, 0x%x) that %s: no token orders them; let instruction %d of %s, or one "
      "behind it, signal a semaphore that instruction %d of %s, or one before it, waits for",
      side(race.second, race.second_writes), std::string(name_of(race.place)), race.begin, race.end,
      side(race.first, race.first_writes), race.first, std::string(from), race.second,
      std::string(to));
}

}  // namespace lw::npu
