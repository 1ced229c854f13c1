#include "apps/option_sources.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <string_view>

#include "apps/flat_toml.h"
#include "apps/llama_flags.h"
#include "base/error.h"
#include "base/read_json.h"

namespace patchbay {
namespace {

using Json = nlohmann::ordered_json;

LoadError wrong(const std::filesystem::path &path, std::string item, std::string problem) {
  return LoadError({.path = path.string(), .item = std::move(item), .problem = std::move(problem)});
}

std::string scalar_of(const std::filesystem::path &path, const std::string &key,
                      const Json &value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean() || value.is_number()) return value.dump();
  throw wrong(path, key, "must be a text, a number, true or false, or a list of these");
}

ConfigValues values_of_json(const std::filesystem::path &path, const std::string &text) {
  const auto json = read_json(text);
  if (!json) {
    const bool is_deep = json.error().fault == JsonFault::too_deep;
    throw wrong(path, "", is_deep ? "is nested too deeply" : "is no JSON: " + json.error().message);
  }
  ConfigValues values;
  for (const auto &[key, value] : json->items()) {
    auto &list = values[key];
    if (!value.is_array()) {
      list.push_back(scalar_of(path, key, value));
      continue;
    }
    for (const Json &one : value) list.push_back(scalar_of(path, key, one));
  }
  return values;
}

ConfigValues values_of_toml(const std::filesystem::path &path, const std::string &text) {
  try {
    return parse_flat_toml(text);
  } catch (const std::invalid_argument &error) {
    throw wrong(path, "", error.what());
  }
}

/// True or false as people write them in environments; nothing for anything else.
std::optional<bool> truth_of(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const char *word : {"1", "true", "on", "yes", "enabled"}) {
    if (text == word) return true;
  }
  for (const char *word : {"0", "false", "off", "no", "disabled"}) {
    if (text == word) return false;
  }
  return std::nullopt;
}

const OptionInfo *find(const std::vector<OptionInfo> &options, const std::string &name) {
  const auto found = std::ranges::find_if(options, [&](const OptionInfo &option) {
    return option.name == name || std::ranges::find(option.aliases, name) != option.aliases.end();
  });
  return found == options.end() ? nullptr : &*found;
}

/// The flag that says so; a false one is its opposite where there is one.
SourcedOption flag(const std::vector<OptionInfo> &options, const OptionInfo &option, bool is_true,
                   const std::string &source) {
  SourcedOption set{.name = option.name, .source = source};
  if (is_true) return set;
  const std::string opposite =
      option.name.starts_with("no-") ? option.name.substr(3) : "no-" + option.name;
  set.says_no = find(options, opposite) == nullptr;
  if (!set.says_no) set.name = opposite;
  return set;
}

/// The same of a variable. Throws std::invalid_argument: it says neither.
SourcedOption flag(const std::vector<OptionInfo> &options, const OptionInfo &option,
                   const std::string &variable, const std::string &value) {
  const auto truth = truth_of(value);
  if (truth) return flag(options, option, *truth, variable);
  throw std::invalid_argument(fmt::format("{} must be true or false, found '{}'", variable, value));
}

constexpr std::string_view k_own_prefix = "PATCHBAY_";

std::string own_variable_of(const std::string &option) {
  std::string name(k_own_prefix);
  for (const char c : option)
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

/// Ours first.
std::vector<std::string> variables_of(const OptionInfo &option) {
  std::vector<std::string> names{option.name};
  names.insert(names.end(), option.aliases.begin(), option.aliases.end());
  std::vector<std::string> variables;
  for (const auto &name : names) variables.push_back(own_variable_of(name));
  for (const auto &name : names) variables.push_back(llama_variable_of(name));
  return variables;
}

}  // namespace

ConfigValues read_config_file(const std::filesystem::path &path) {
  std::error_code ignored;
  std::ifstream file(path);
  // A folder can be opened, and reading it throws.
  if (!file || std::filesystem::is_directory(path, ignored))
    throw wrong(path, "", "cannot be read as a configuration");
  const std::string all{std::istreambuf_iterator<char>(file), {}};
  const size_t begin = all.find_first_not_of(" \t\r\n");
  return begin != std::string::npos && all[begin] == '{' ? values_of_json(path, all)
                                                         : values_of_toml(path, all);
}

std::vector<SourcedOption> options_of_environment(const std::vector<OptionInfo> &options,
                                                  const Environment &environment) {
  std::vector<SourcedOption> found;
  for (const auto &option : options) {
    for (const auto &variable : variables_of(option)) {
      const auto value = environment(variable);
      if (!value || value->empty()) continue;
      found.push_back(option.is_flag ? flag(options, option, variable, *value)
                                     : SourcedOption{option.name, {*value}, variable});
      break;
    }
  }
  return found;
}

std::vector<std::string> unknown_variables(const std::vector<OptionInfo> &options,
                                           const std::vector<std::string> &variables) {
  std::set<std::string> known;
  for (const auto &option : options) {
    for (auto &variable : variables_of(option)) known.insert(std::move(variable));
  }
  std::vector<std::string> unknown;
  for (const auto &variable : variables) {
    if (variable.starts_with(k_own_prefix) && !known.contains(variable))
      unknown.push_back(variable);
  }
  return unknown;
}

std::vector<SourcedOption> options_of_file(const std::vector<OptionInfo> &options,
                                           const std::filesystem::path &path,
                                           const ConfigValues &values) {
  std::vector<SourcedOption> found;
  for (const auto &[key, list] : values) {
    const OptionInfo *option = find(options, key);
    if (option == nullptr || key == "config") throw wrong(path, key, "is no option");
    if (option->is_flag) {
      const auto truth = list.size() == 1 ? truth_of(list.front()) : std::nullopt;
      if (!truth) throw wrong(path, key, "must be true or false");
      found.push_back(flag(options, *option, *truth, path.string()));
      continue;
    }
    if (list.size() != 1 && !option->is_list) throw wrong(path, key, "takes one value");
    if (std::ranges::find(list, "") != list.end()) throw wrong(path, key, "is empty");
    found.push_back({option->name, list, path.string()});
  }
  return found;
}

std::vector<SourcedOption> choose_options(const std::vector<OptionInfo> &options,
                                          std::set<std::string> given,
                                          const std::vector<std::vector<SourcedOption>> &sources) {
  std::vector<SourcedOption> chosen;
  for (const auto &source : sources) {
    std::set<std::string> here;
    for (const auto &one : source) {
      const OptionInfo *option = find(options, one.name);
      const auto stands_above = [&](const std::string &name) { return given.contains(name); };
      const bool is_overruled =
          stands_above(one.name) ||
          (option != nullptr && std::ranges::any_of(option->rivals, stands_above));
      if (is_overruled) continue;
      chosen.push_back(one);
      here.insert(one.name);
    }
    given.merge(here);
  }
  return chosen;
}

std::vector<std::string> arguments_of(const std::vector<SourcedOption> &chosen) {
  std::vector<std::string> arguments;
  for (const auto &[name, values, source, says_no] : chosen) {
    if (values.empty() && !says_no) arguments.push_back("--" + name);
    for (const auto &value : values) arguments.push_back(fmt::format("--{}={}", name, value));
  }
  return arguments;
}

}  // namespace patchbay
