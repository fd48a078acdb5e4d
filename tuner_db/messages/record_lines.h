// Lines of exports, whichever version wrote them, as records: what this version cannot read is told
// from what is damaged. Another version's step, verdict, word or field makes a record unknown: it
// can be left out, and the rest imported. What no version writes (no JSON, a sum that does not add
// up) is damage, after which nothing of a file is to be trusted.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "loopwright/v1/record.pb.h"

namespace lw {

// kUnimplemented: of another version; what and which.
absl::Status unknown_here(std::string_view what);
bool is_unknown_here(const absl::Status& status);

// What was left out of an import, by reason.
struct Skipped {
  struct Kind {
    std::string reason;
    int64_t count = 0;
    std::string example;                   // the first of them, its beginning
  };
  std::vector<Kind> kinds;                 // in order of arrival; what comes after the 20th is its
  int64_t records = 0;
  void add(std::string_view reason, std::string_view example);
  void add(const Skipped& others);
};

// A line as a record. kInvalidArgument: it is none. What in it is of another version is left out:
// its workload, its target, or key, measurement and withdrawal together; `unknown` then says what
// (else it is empty), and the record may have nothing left.
absl::Status parse_record_line(std::string_view line, loopwright::v1::Record* record,
                               std::string* unknown);
// The same of a record that came as bytes, whose unknown fields lie in it unread.
std::string leave_out_unknown(loopwright::v1::Record* record);
// What became of a record of which `unknown` was left out and the rest added with this status: OK
// where its measurement is there all the same, for the store knew what was left out.
absl::Status explain(const loopwright::v1::Record& record, std::string_view unknown,
                     absl::Status added);

// Its JSON form.
std::string record_line(const loopwright::v1::Record& record);

}  // namespace lw
