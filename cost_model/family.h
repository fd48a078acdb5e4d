// The cost model of each family of machines, found by its folder: cost_model/NAME/family.cc defines
// `const cost::Family& NAME_family()`. Internal to cost_model. Pure functions; thread-safe.
#pragma once

#include "cost_model/cost_model.h"

namespace lw::cost {

struct Family {
  const char* name;                        // as schedules/targets/family.h has it
  const std::vector<Feature>& (*table)();
  std::vector<float> (*features)(const Nest& nest);
  double (*draft_us)(const Nest& nest);
  uint64_t (*kind)(uint64_t hash, const std::vector<float>& features);
  bool begins_shipped = false;             // first_model() is the shipped one
};

// All of them, by name (generated table).
const std::vector<const Family*>& lw_cost_family_table();
// REQUIRES: there is one of the name.
const Family& find_family(std::string_view name);
// Of targets of an architecture; of one that no family has, the CPUs'.
std::string_view family_of(std::string_view architecture);
// Whether what ranks its schedules first is the shipped model.
bool begins_shipped(std::string_view architecture);

}  // namespace lw::cost
