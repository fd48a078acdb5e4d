// The program that a test is part of. Each folder of tests is one program, `FOLDER_tests`; main.cc
// runs the tests of one file of it: `fleet_tests service_kill_test --rounds=1000`. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace lw {

// The value of "--NAME=VALUE" among the words that are not GoogleTest's.
std::optional<std::string> test_option(std::string_view name);

// The number in an environment variable, LW_SEED or one that makes a test longer or shorter.
int64_t setting(const char* name, int64_t otherwise);

// Of what is repeated that often, for instance kills, the share that LW_ROUNDS names in percent: all
// if it is not set, and at least one.
int rounds_of(int usual);

// Whether it came to hold: asked again and again for what must happen, with patience for sanitizers
// on a busy machine; never a bar on the time that it takes.
bool eventually(const std::function<bool()>& holds, double patience_s = 180);

std::string own_program();                 // its path

// What a test starts of its own program as another process: `own_program() WORD ...` calls `main`
// with all words, and runs no tests. A variable at namespace scope.
struct EntryPoint {
  EntryPoint(std::string_view word, int (*main)(int, char**));
};

}  // namespace lw
