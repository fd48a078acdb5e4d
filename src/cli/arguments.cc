#include "src/cli/arguments.h"

#include <map>
#include <utility>

#include "CLI/CLI.hpp"

namespace lw {

Argument Argument::required() { return Argument(option_->required()); }
Argument Argument::capture_default_str() { return Argument(option_->capture_default_str()); }
Argument Argument::envname(const std::string& variable) {
  return Argument(option_->envname(variable));
}
Argument Argument::excludes(const std::string& other) {
  return Argument(option_->excludes(other));
}
Argument Argument::excludes(Argument other) { return Argument(option_->excludes(other.option_)); }
Argument Argument::delimiter(char between) { return Argument(option_->delimiter(between)); }
Argument Argument::allow_extra_args(bool allowed) {
  return Argument(option_->allow_extra_args(allowed));
}
Argument Argument::each(std::function<void(std::string)> seen) {
  return Argument(option_->each(std::move(seen)));
}
Argument Argument::positive() { return Argument(option_->check(CLI::PositiveNumber)); }
Argument Argument::not_negative() { return Argument(option_->check(CLI::NonNegativeNumber)); }
Argument Argument::between(double low, double high) {
  return Argument(option_->check(CLI::Range(low, high)));
}
Argument Argument::between(int64_t low, int64_t high) {
  return Argument(option_->check(CLI::Range(low, high)));
}
Argument Argument::one_of(std::initializer_list<const char*> words) {
  return Argument(option_->check(CLI::IsMember(std::vector<std::string>(words.begin(),
                                                                        words.end()))));
}

template <class Value>
Argument Arguments::add_option(const std::string& names, Value& value, const std::string& help) {
  return Argument(app_->add_option(names, value, help));
}
template Argument Arguments::add_option(const std::string&, std::string&, const std::string&);
template Argument Arguments::add_option(const std::string&, int&, const std::string&);
template Argument Arguments::add_option(const std::string&, int64_t&, const std::string&);
template Argument Arguments::add_option(const std::string&, uint64_t&, const std::string&);
template Argument Arguments::add_option(const std::string&, double&, const std::string&);
template Argument Arguments::add_option(const std::string&, std::vector<std::string>&,
                                        const std::string&);
template Argument Arguments::add_option(const std::string&, std::map<std::string, std::string>&,
                                        const std::string&);

Argument Arguments::add_option(const std::string& names,
                               std::function<bool(const std::vector<std::string>&)> take,
                               const std::string& help) {
  return Argument(app_->add_option(names, CLI::callback_t(std::move(take)), help));
}
Argument Arguments::add_flag(const std::string& names, bool& value, const std::string& help) {
  return Argument(app_->add_flag(names, value, help));
}

Arguments Arguments::add_command(const std::string& name, const std::string& help) {
  return Arguments(app_->add_subcommand(name, help));
}
void Arguments::require_command() { app_->require_subcommand(1); }
void Arguments::callback(std::function<void()> named) { app_->callback(std::move(named)); }
void Arguments::description(const std::string& text) { app_->description(text); }
void Arguments::hide() { app_->group(""); }

}  // namespace lw
