#include "tokenizer/byte_alphabet.h"

#include <array>
#include <unordered_map>

#include "base/utf8.h"

namespace patchbay {

namespace {

bool spells_itself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

std::array<std::string, 256> make_alphabet() {
  std::array<std::string, 256> alphabet;
  char32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    alphabet[static_cast<size_t>(byte)] =
        to_utf8(spells_itself(byte) ? static_cast<char32_t>(byte) : next++);
  }
  return alphabet;
}

const std::array<std::string, 256> &alphabet() {
  static const std::array<std::string, 256> instance = make_alphabet();
  return instance;
}

std::unordered_map<std::string_view, uint8_t> make_inverse() {
  std::unordered_map<std::string_view, uint8_t> inverse;
  for (size_t byte = 0; byte < 256; ++byte) {
    inverse.emplace(alphabet()[byte], static_cast<uint8_t>(byte));
  }
  return inverse;
}

}  // namespace

const std::string &byte_spelling(uint8_t byte) { return alphabet()[byte]; }

std::optional<std::string> spelled_bytes(std::string_view spelled) {
  static const std::unordered_map<std::string_view, uint8_t> inverse = make_inverse();
  std::string bytes;
  for (size_t pos = 0; pos < spelled.size();) {
    const std::string_view character = spelled.substr(pos, utf8_size_at(spelled, pos));
    const auto found = inverse.find(character);
    if (found == inverse.end()) return std::nullopt;
    bytes.push_back(static_cast<char>(found->second));
    pos += character.size();
  }
  return bytes;
}

}  // namespace patchbay
