#pragma once

#include <string>

namespace patchbay {

/// All bytes of a file; "-" is standard input. Throws LoadError when they cannot be read.
[[nodiscard]] std::string read_input_text(const std::string &path);

}  // namespace patchbay
