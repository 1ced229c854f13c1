#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace patchbay {

/// An option of a command, as far as other sources than the command line need to know it.
struct OptionInfo {
  std::string name{};                  ///< long, without dashes
  std::vector<std::string> aliases{};  ///< other long names
  bool is_flag = false;                ///< takes no value
  bool is_list = false;                ///< may be given several times
  bool is_secret = false;              ///< not to be shown
  std::set<std::string> rivals{};      ///< which it cannot be given beside
};

/// Where an option's values come from.
struct SourcedOption {
  std::string name{};
  std::vector<std::string> values{};  ///< of a flag: none
  std::string source{};               ///< "LLAMA_ARG_PORT", "patchbay.toml"
  bool says_no = false;               ///< of a flag: it is not to be set
};

/// Values by long name. "true" and "false" are a flag's.
using ConfigValues = std::map<std::string, std::vector<std::string>>;

/// Reads a configuration file: JSON when it begins with a brace, else TOML; one flat table of long
/// names. Throws LoadError that names file and key: what cannot be read, tables within the table.
[[nodiscard]] ConfigValues read_config_file(const std::filesystem::path &path);

/// The value of an environment variable, or nothing.
using Environment = std::function<std::optional<std::string>(const std::string &)>;

/// What the environment says: PATCHBAY_NAME before LLAMA_ARG_NAME. An empty variable is none.
/// Throws std::invalid_argument that names the variable: a flag is neither true nor false.
[[nodiscard]] std::vector<SourcedOption> options_of_environment(
    const std::vector<OptionInfo> &options, const Environment &environment);

/// Those of the variables that begin with PATCHBAY_ and are no option's: misspelt ones, mostly.
[[nodiscard]] std::vector<std::string> unknown_variables(const std::vector<OptionInfo> &options,
                                                         const std::vector<std::string> &variables);

/// What a file says. Throws LoadError that names file and key: an unknown one, a wrong type.
[[nodiscard]] std::vector<SourcedOption> options_of_file(const std::vector<OptionInfo> &options,
                                                         const std::filesystem::path &path,
                                                         const ConfigValues &values);

/// Those of `sources`, whose first ones stand above later ones, that nothing above them speaks
/// against: neither the same option nor a rival; `given` stand above all.
[[nodiscard]] std::vector<SourcedOption> choose_options(
    const std::vector<OptionInfo> &options, std::set<std::string> given,
    const std::vector<std::vector<SourcedOption>> &sources);

/// The same as arguments.
[[nodiscard]] std::vector<std::string> arguments_of(const std::vector<SourcedOption> &chosen);

}  // namespace patchbay
