#include "apps/option_table.h"

#include <fmt/format.h>

#include <charconv>
#include <stdexcept>

#include "apps/flat_toml.h"

namespace patchbay {
namespace {

/// Not options of what runs, but of this run.
bool is_of_this_run(const std::string &name) {
  return name == "help" || name == "config" || name == "print-config";
}

std::vector<const CLI::Option *> all_options(const CLI::App &app) {
  std::vector<const CLI::Option *> options;
  for (const CLI::Option *option : app.get_options()) {
    if (!option->get_lnames().empty()) options.push_back(option);
  }
  for (const CLI::App *group : app.get_subcommands({})) {
    for (const CLI::Option *option : all_options(*group)) options.push_back(option);
  }
  return options;
}

bool is_flag(const CLI::Option &option) { return option.get_items_expected_max() == 0; }

OptionInfo info_of(const CLI::Option &option) {
  const auto &names = option.get_lnames();
  OptionInfo info{.name = names.front(), .aliases = {names.begin() + 1, names.end()}};
  info.is_flag = is_flag(option);
  info.is_list = !info.is_flag && option.get_items_expected_max() > 1;
  info.is_secret = info.name == "api-key";
  for (const CLI::Option *rival : option.get_excludes()) {
    if (!rival->get_lnames().empty()) info.rivals.insert(rival->get_lnames().front());
  }
  return info;
}

bool is_number(const std::string &text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

std::string toml_value(const std::string &text) { return is_number(text) ? text : toml_text(text); }

std::string toml_list(const std::vector<std::string> &values) {
  std::string list = "[";
  for (const auto &value : values) list += (list.size() > 1 ? ", " : "") + toml_value(value);
  return list + "]";
}

/// Words about a default are no value.
bool is_value(const std::string &text) {
  return !text.empty() && text.find(' ') == std::string::npos;
}

std::string config_line(const CLI::Option &option) {
  const OptionInfo info = info_of(option);
  const bool is_given = option.count() > 0;
  if (info.is_secret)
    return is_given ? fmt::format("# {} = ******** (not shown)\n", info.name) : "";
  if (info.is_flag) return is_given ? fmt::format("{} = true\n", info.name) : "";
  if (is_given) {
    return fmt::format(
        "{} = {}\n", info.name,
        info.is_list ? toml_list(option.results()) : toml_value(option.results().back()));
  }
  const std::string otherwise = option.get_default_str();
  if (is_value(otherwise)) return fmt::format("{} = {}\n", info.name, toml_value(otherwise));
  return otherwise.empty() ? "" : fmt::format("# {}: {}\n", info.name, otherwise);
}

}  // namespace

std::vector<OptionInfo> options_of(const CLI::App &app) {
  std::vector<OptionInfo> options;
  for (const CLI::Option *option : all_options(app)) {
    const std::string &name = option->get_lnames().front();
    if (!is_of_this_run(name) || name == "config") options.push_back(info_of(*option));
  }
  // Each may rule out the other, whichever said so.
  for (const auto &option : options) {
    for (auto &rival : options) {
      if (option.rivals.contains(rival.name)) rival.rivals.insert(option.name);
    }
  }
  return options;
}

std::set<std::string> given_options(const CLI::App &app) {
  std::set<std::string> given;
  for (const CLI::Option *option : all_options(app)) {
    if (option->count() > 0) given.insert(option->get_lnames().front());
  }
  return given;
}

std::string config_text(const CLI::App &app) {
  std::string text;
  for (const CLI::Option *option : all_options(app)) {
    if (!is_of_this_run(option->get_lnames().front())) text += config_line(*option);
  }
  return text;
}

void check_options(const std::vector<SourcedOption> &options,
                   const std::function<void(const std::vector<std::string> &)> &parse) {
  for (const auto &option : options) {
    try {
      parse(arguments_of({option}));
    } catch (const CLI::ParseError &error) {
      // Another one that it needs may come from elsewhere.
      if (dynamic_cast<const CLI::RequiresError *>(&error) != nullptr) continue;
      throw std::invalid_argument(
          fmt::format("{}: {}: {}", option.source, option.name, error.what()));
    }
  }
}

}  // namespace patchbay
