#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace patchbay {

/// Turns a stream of bytes into valid UTF-8: complete characters pass, and each maximal ill-formed
/// part becomes one U+FFFD (Unicode 15, section 3.9, "U+FFFD Substitution of Maximal Subparts"), as
/// in Python's bytes.decode("utf-8", "replace"). What has been written is always whole characters.
/// One thread at a time.
class Utf8Repair {
 public:
  /// Appends to `out` what `bytes` completes; an unfinished character at the end is held back.
  void push(std::string_view bytes, std::string &out);
  /// Appends U+FFFD for a character that was held back, and starts anew.
  void finish(std::string &out);

 private:
  void push_byte(uint8_t byte, std::string &out);
  bool start_character(uint8_t byte);

  std::string held_;  // the first bytes of a character, at most three
  int n_missing_ = 0;
  uint8_t min_next_ = 0x80;  // bounds of the next byte; narrower after E0, ED, F0 and F4
  uint8_t max_next_ = 0xBF;
};

/// `bytes` with every ill-formed part replaced; see Utf8Repair.
[[nodiscard]] std::string repair_utf8(std::string_view bytes);

[[nodiscard]] bool is_valid_utf8(std::string_view bytes);

/// Length in bytes of the character that begins at text[pos]. REQUIRES: `text` is valid UTF-8,
/// `pos` is a border in it.
[[nodiscard]] size_t utf8_size_at(std::string_view text, size_t pos);

/// The character that begins at text[pos]. REQUIRES: as utf8_size_at.
[[nodiscard]] char32_t code_point_at(std::string_view text, size_t pos);

/// One code point as UTF-8. REQUIRES: not a surrogate and below 0x110000.
[[nodiscard]] std::string to_utf8(char32_t code_point);

}  // namespace patchbay
