// What the cost model knows of CPUs: the functions of cost::Family. Internal to cost_model.
#pragma once

#include <cstdint>
#include <vector>

#include "cost_model/cost_model.h"
#include "cost_model/cpu/analysis.h"

namespace lw::cost::cpu {

const std::vector<Feature>& table();
std::vector<float> features(const Nest& nest);
std::vector<float> features(const Nest& nest, const Analysis& analysis);  // whose analysis it is
double draft_us(const Nest& nest);
uint64_t kind(uint64_t hash, const std::vector<float>& features);

}  // namespace lw::cost::cpu
