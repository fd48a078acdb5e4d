#include "src/cli/arguments.h"

#include <map>
#include <utility>

#include "CLI/CLI.hpp"

namespace lw {

CliArgument CliArgument::required() { return CliArgument(option_->required()); }
CliArgument CliArgument::capture_default_str() {
  return CliArgument(option_->capture_default_str());
}
CliArgument CliArgument::envname(const std::string& variable) {
  return CliArgument(option_->envname(variable));
}
CliArgument CliArgument::excludes(const std::string& other) {
  return CliArgument(option_->excludes(other));
}
CliArgument CliArgument::excludes(CliArgument other) {
  return CliArgument(option_->excludes(other.option_));
}
CliArgument CliArgument::delimiter(char between) {
  return CliArgument(option_->delimiter(between));
}
CliArgument CliArgument::allow_extra_args(bool allowed) {
  return CliArgument(option_->allow_extra_args(allowed));
}
CliArgument CliArgument::each(std::function<void(std::string)> seen) {
  return CliArgument(option_->each(std::move(seen)));
}
CliArgument CliArgument::positive() { return CliArgument(option_->check(CLI::PositiveNumber)); }
CliArgument CliArgument::not_negative() {
  return CliArgument(option_->check(CLI::NonNegativeNumber));
}
CliArgument CliArgument::between(double low, double high) {
  return CliArgument(option_->check(CLI::Range(low, high)));
}
CliArgument CliArgument::between(int64_t low, int64_t high) {
  return CliArgument(option_->check(CLI::Range(low, high)));
}
CliArgument CliArgument::one_of(std::initializer_list<const char*> words) {
  const std::vector<std::string> list(words.begin(), words.end());
  return CliArgument(option_->check(CLI::IsMember(list)));
}

template <class Value>
CliArgument CliArguments::add_option(const std::string& names, Value& value,
                                     const std::string& help) {
  return CliArgument(app_->add_option(names, value, help));
}
template CliArgument CliArguments::add_option(const std::string&, std::string&,
                                              const std::string&);
template CliArgument CliArguments::add_option(const std::string&, int&,
                                              const std::string&);
template CliArgument CliArguments::add_option(const std::string&, int64_t&,
                                              const std::string&);
template CliArgument CliArguments::add_option(const std::string&, uint64_t&,
                                              const std::string&);
template CliArgument CliArguments::add_option(const std::string&, double&,
                                              const std::string&);
template CliArgument CliArguments::add_option(const std::string&, std::vector<std::string>&,
                                              const std::string&);
template CliArgument CliArguments::add_option(const std::string&,
                                              std::map<std::string, std::string>&,
                                              const std::string&);

CliArgument CliArguments::add_option(const std::string& names,
                                     std::function<bool(const std::vector<std::string>&)> take,
                                     const std::string& help) {
  return CliArgument(app_->add_option(names, CLI::callback_t(std::move(take)), help));
}
CliArgument CliArguments::add_flag(const std::string& names, bool& value,
                                   const std::string& help) {
  return CliArgument(app_->add_flag(names, value, help));
}

CliArguments CliArguments::add_command(const std::string& name, const std::string& help) {
  return CliArguments(app_->add_subcommand(name, help));
}
void CliArguments::require_command() { app_->require_subcommand(1); }
void CliArguments::callback(std::function<void()> named) { app_->callback(std::move(named)); }
void CliArguments::description(const std::string& text) { app_->description(text); }
void CliArguments::hide() { app_->group(""); }

}  // namespace lw
