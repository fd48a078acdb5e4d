// A scheduled program as a function of linalg operations on tensors: what a transform script
// (transform.h) applies its schedule to.
//
// Every stage that is computed is one linalg.generic with the attribute loopwright.stage = "NAME",
// of its effective body; a reduction has another before it, loopwright.init = "NAME", that fills
// with the identity, and where no map finishes it one behind it, loopwright.store = "NAME", that
// copies its results to where they belong. Where indices leave a tensor, what is read is made
// first: its margins are filled, loopwright.margin = "NAME.OPERAND.N", and its inside copied,
// loopwright.inside = "NAME.OPERAND".
// The copy of an operand, in a layout of its own, is loopwright.copy = "NAME".
// Arguments are inputs, then outputs, which are written in place, then copies that are made once,
// by another function of the same arguments.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/export/operation.h"

namespace lw {

// One func.func named `symbol` that makes what is made once.
std::string linalg_prepack(const Nest& nest, const std::vector<Operation>& operations,
                           const std::string& symbol);

// One func.func named `symbol`. `operations`: of all stages that are computed, in order.
// kFailedPrecondition: "NAME: why" a body cannot be printed.
absl::StatusOr<std::string> linalg_function(const Nest& nest,
                                            const std::vector<Operation>& operations,
                                            const std::string& symbol);

// NAME.OPERAND of the attributes above.
std::string margin_name(const Nest& nest, const Operation& operation, int operand);

}  // namespace lw
