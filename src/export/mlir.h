// A schedule for stock MLIR 19: a payload of linalg operations, a transform script that schedules it,
// and a report of what the script keeps. Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "loopwright/type.h"
#include "nlohmann/json.hpp"
#include "schedules/steps.h"
#include "src/export/transform.h"

namespace lw {

constexpr int kMlirSchema = 1;             // of the files' names, attributes and report
constexpr char kMlirVersion[] = "19";

struct StepFidelity {
  std::string step;                        // as traces print it
  Fidelity fidelity;
};

// Memory of a copy that is made once, row-major.
struct PackedArgument {
  std::string tensor;                      // what is copied
  Type type;
  std::vector<int64_t> shape;
};

struct MlirFunction {
  std::string symbol;                      // of C: what is not a letter or digit became _
  // Arguments behind the outputs. Unless there are none, SYMBOL_prepack, of the same arguments as
  // SYMBOL, fills them in, of const inputs alone.
  std::vector<PackedArgument> packed;
  std::vector<StepFidelity> steps;          // one for each of the trace's
  std::string refused;                     // "NAME: why"; "": it was not, and there is:
  std::string payload, script;             // parts of the modules below
  bool fetches_ahead = false;              // the payload calls what ahead.h declares
};

// `trace`: the one that made `nest`, for the report.
MlirFunction mlir_function(const Nest& nest, const Trace& trace, std::string_view name);

// Whether the script keeps all of the schedule.
bool is_exact(const MlirFunction& function);

// {"schema", "mlir", "function", "refused"?, "packed": [{"tensor", "type", "shape"}], "coverage":
// {class: steps}, "steps": [{"step", "class", "why"?}]}, class one of exact, approximate, lost (only
// speed suffers), refused.
nlohmann::ordered_json mlir_report(const MlirFunction& function);

// Modules of several functions; their symbols differ. REQUIRES: none is refused.
std::string payload_module(const std::vector<MlirFunction>& functions);
std::string schedule_module(const std::vector<MlirFunction>& functions);

// What does not depend on the schedule: the library that a schedule calls, and a script that makes an
// object of a folder with all three.
std::string mlir_prelude();
std::string mlir_lower_script();

}  // namespace lw
