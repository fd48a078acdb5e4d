#include "src/cli/skipped.h"

namespace lw {

void add_strict(CliArguments app, bool* strict) {
  app.add_flag("--strict", *strict,
               "refuse what another version wrote and this one cannot read, instead of leaving it "
               "out (exit 1 either way)");
}

std::string skipped_text(const Skipped& skipped) {
  if (skipped.records == 0) return "";
  std::string text =
      concat(skipped.records, " records left out, which this version cannot read:\n");
  for (const Skipped::Kind& kind : skipped.kinds) {
    text += concat("  ", kind.count, "  ", kind.reason, "\n     as in: ", kind.example, "\n");
  }
  return text;
}

void add_skipped(const Skipped& skipped, Json* json) {
  (*json)["skipped"] = skipped.records;
  (*json)["reasons"] = Json::array();
  for (const Skipped::Kind& kind : skipped.kinds) {
    (*json)["reasons"].push_back(
        {{"reason", kind.reason}, {"count", kind.count}, {"example", kind.example}});
  }
}

}  // namespace lw
