// What the cost model knows of machines of many threads: the functions of cost::Family. Internal to
// cost_model.
#pragma once

#include <vector>

#include "cost_model/cost_model.h"

namespace lw::cost::simt {

const std::vector<Feature>& table();
std::vector<float> features(const Nest& nest);
double draft_us(const Nest& nest);

}  // namespace lw::cost::simt
