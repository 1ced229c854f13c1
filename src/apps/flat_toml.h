#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace patchbay {

/// Reads the part of TOML (https://toml.io/en/v1.0.0) that a configuration of options needs: keys
/// with texts, numbers, true and false, and arrays of these; no tables, dates or texts of several
/// lines. Numbers and truths come as they are written. CLI11's own reader ends quoted texts at a
/// number sign and knows no escapes. Throws std::invalid_argument that names the line.
[[nodiscard]] std::map<std::string, std::vector<std::string>> parse_flat_toml(
    std::string_view text);

/// The text as TOML writes it.
[[nodiscard]] std::string toml_text(std::string_view text);

}  // namespace patchbay
