// What a command line may hold, as commands declare it. CLI11 does the work, in arguments.cc and
// main.cc alone: all of it is in its headers, and each file that reads them takes 6 s to compile.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace lw {

// A handle of one option or positional; all of it returns the same handle.
class CliArgument {
 public:
  explicit CliArgument(CLI::Option* option) : option_(option) {}
  CliArgument required();
  CliArgument capture_default_str();          // the help shows the value that stands there now
  CliArgument envname(const std::string& variable);
  CliArgument excludes(const std::string& other);
  CliArgument excludes(CliArgument other);
  CliArgument delimiter(char between);        // of several values in one word
  CliArgument allow_extra_args(bool allowed);
  CliArgument each(std::function<void(std::string)> seen);
  // What values may be, or the line is refused.
  CliArgument positive();
  CliArgument not_negative();
  CliArgument between(double low, double high);
  CliArgument between(int64_t low, int64_t high);
  CliArgument between(int low, int high) { return between(int64_t{low}, int64_t{high}); }
  CliArgument one_of(std::initializer_list<const char*> words);

 private:
  CLI::Option* option_;
};

// A handle of a command: what it takes. Lives as long as the program's parser.
class CliArguments {
 public:
  explicit CliArguments(CLI::App* app) : app_(app) {}
  // `names`: "-o,--output", or "name" of a positional. `value` must outlive the parsing; its type
  // is one of those that arguments.cc lists.
  template <class Value>
  CliArgument add_option(const std::string& names, Value& value, const std::string& help);
  // `take` is given the words of the line; false: they are refused.
  CliArgument add_option(const std::string& names,
                         std::function<bool(const std::vector<std::string>&)> take,
                         const std::string& help);
  CliArgument add_flag(const std::string& names, bool& value, const std::string& help);

  CliArguments add_command(const std::string& name, const std::string& help);
  void require_command();                  // one of those must be named
  void callback(std::function<void()> named);
  void description(const std::string& text);
  void hide();                             // not in the help

 private:
  CLI::App* app_;
};

}  // namespace lw
