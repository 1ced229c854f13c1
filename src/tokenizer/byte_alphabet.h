#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace patchbay {

// Byte-level vocabularies spell each byte as one printable character (GPT-2, src/encoder.py,
// bytes_to_unicode): the printable Latin-1 bytes as themselves, the 68 others in ascending order as
// U+0100, U+0101, ...

/// The character, in UTF-8, that stands for `byte`.
[[nodiscard]] const std::string &byte_spelling(uint8_t byte);

/// The bytes that `spelled` stands for; nullopt when it has a character outside the alphabet.
[[nodiscard]] std::optional<std::string> spelled_bytes(std::string_view spelled);

}  // namespace patchbay
