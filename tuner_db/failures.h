// What went wrong with a key's candidates, by class: for whoever asks why there is no best.
#pragma once

#include <string>
#include <vector>

#include "tuner_db/store.h"

namespace lw {

struct FailureClass {
  std::string name;                        // "wrong_result", "wrong_result on edge inputs", ...
  int count = 0;
  Measurement example;                     // the first of them: its detail and its trace
};

// Of measurements that are their candidates' fault, or nobody's; the largest class first.
std::vector<FailureClass> failure_classes(const std::vector<Measurement>& measurements);

// The class of a measurement that is not OK.
std::string failure_class(const Measurement& measurement);

// What whoever meets the class can do, in a sentence.
std::string failure_advice(const FailureClass& failure);

}  // namespace lw
