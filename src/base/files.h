// Whole files. Thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace lw {

// kNotFound: "cannot read PATH: why".
absl::StatusOr<std::string> read_file(const std::string& path);
// "": there is none.
std::string first_line(const std::string& path);
// In place of what is there. kUnavailable: "cannot write PATH: why".
absl::Status write_file(const std::string& path, std::string_view bytes);
// The same, durably, and whole or not at all, whatever ends the process or fills the disk: beside
// it first ("PATH.new.PID"), then renamed.
absl::Status replace_file(const std::string& path, std::string_view bytes);
// The same, but not durably (who reads must expect anything after a power cut), by any number of
// writers at once; its folder is made.
absl::Status place_file(const std::string& path, std::string_view bytes);
// What is remembered from run to run: $XDG_STATE_HOME/loopwright, else ~/.local/state/loopwright, else
// "". It need not be there.
std::string default_state_folder();

}  // namespace lw
