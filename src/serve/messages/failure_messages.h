// Classes of failures as they travel and as everybody's JSON has them.
#pragma once

#include <vector>

#include "loopwright/v1/study.pb.h"
#include "nlohmann/json.hpp"
#include "tuner_db/failures.h"

namespace lw {

using FailureMessages = std::vector<loopwright::v1::FailureClass>;

FailureMessages failure_messages(const std::vector<FailureClass>& failures);

// {class, count, detail, trace, advice} of each.
nlohmann::ordered_json failures_json(const FailureMessages& failures);

}  // namespace lw
