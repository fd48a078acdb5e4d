// What the commands that import say of records that were left out.
#pragma once

#include <string>

#include "src/cli/common.h"
#include "tuner_db/messages/record_lines.h"

namespace lw {

// --strict.
void add_strict(CliArguments app, bool* strict);
// "" for none, else lines: how many, and of each reason the first.
std::string skipped_text(const Skipped& skipped);
// "skipped", a number, and "reasons": a list of {reason, count, example}.
void add_skipped(const Skipped& skipped, Json* json);

}  // namespace lw
