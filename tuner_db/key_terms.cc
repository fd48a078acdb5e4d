#include "tuner_db/key_terms.h"

#include "src/base/named.h"

namespace lw {
namespace {

// Part of the stored format.
constexpr Named<Cache> kCaches[] = {{Cache::kWarm, "warm"}, {Cache::kCold, "cold"}};
constexpr Named<Objective> kObjectives[] = {{Objective::kTime, "time"},
                                            {Objective::kTimeWinograd, "time+winograd"}};

}  // namespace

std::string_view cache_name(Cache cache) { return name_in(kCaches, cache); }
bool parse_cache(std::string_view name, Cache* cache) { return parse_in(kCaches, name, cache); }

std::string_view objective_name(Objective objective) { return name_in(kObjectives, objective); }
bool parse_objective(std::string_view name, Objective* objective) {
  return parse_in(kObjectives, name, objective);
}

bool allows_winograd(std::string_view objective) {
  Objective known = Objective::kTime;
  return parse_objective(objective, &known) && allows_winograd(known);
}

}  // namespace lw
