#pragma once

#include <CLI/CLI.hpp>
#include <set>
#include <string>
#include <vector>

#include "apps/option_sources.h"

namespace patchbay {

/// The options of a command that other sources may set, those of its groups included.
[[nodiscard]] std::vector<OptionInfo> options_of(const CLI::App &app);

/// Long names of those that the command line gave.
[[nodiscard]] std::set<std::string> given_options(const CLI::App &app);

/// What is in effect, as TOML that read_config_file() understands: what was given from anywhere,
/// and defaults. Keys are left out, and defaults that are no values stand in comments.
[[nodiscard]] std::string config_text(const CLI::App &app);

/// Parses each alone, so that an error can say where the value came from. Throws
/// std::invalid_argument that names source and option.
void check_options(const std::vector<SourcedOption> &options,
                   const std::function<void(const std::vector<std::string> &)> &parse);

}  // namespace patchbay
