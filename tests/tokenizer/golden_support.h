#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace patchbay {

// What tests/oracle/tokenizer_oracle.py stored in tests/data/tokenizer; the formats are described
// there.

/// The lines of tests/data/tokenizer/`name`, without their ends. Throws std::runtime_error when it
/// cannot be read.
[[nodiscard]] std::vector<std::string> golden_lines(const std::string &name);

/// The strings all goldens are about, escapes and repetitions undone.
[[nodiscard]] std::vector<std::string> golden_strings();

/// `tokens` as a line of a golden gives them: the ids, or count and hash when there are many.
[[nodiscard]] std::string format_golden(std::span<const int32_t> tokens);

/// The model file models/`name`; it need not exist.
[[nodiscard]] std::filesystem::path model_path(const std::string &name);

[[nodiscard]] std::shared_ptr<const Tokenizer> load_tokenizer(const std::filesystem::path &path);

}  // namespace patchbay
