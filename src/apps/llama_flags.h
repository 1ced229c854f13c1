#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace patchbay {

/// Whether a flag of llama-server is followed by a value.
enum class FlagValue { none, one, maybe };

/// A flag of llama-server that means nothing here: accepted, with a warning.
struct IgnoredFlag {
  std::string_view names;  ///< as CLI11 takes them, "--a,--b"
  FlagValue value = FlagValue::none;
};
[[nodiscard]] const std::vector<IgnoredFlag> &ignored_llama_flags();

/// llama-server has short names of several letters (-np, -ngl), which CLI11 would read as several
/// short names: they become the long ones. What follows "--" stays.
[[nodiscard]] std::vector<std::string> spell_out_short_flags(std::vector<std::string> arguments);

/// The environment variable by which llama-server knows the option of this long name (without its
/// dashes).
[[nodiscard]] std::string llama_variable_of(std::string_view option);

}  // namespace patchbay
