#pragma once

namespace patchbay::jinja {

/// What Python's str methods ask of characters, by the Unicode version of PCRE2.
enum class CharClass {
  alphabetic,      ///< str.isalpha
  decimal,         ///< str.isdecimal
  numeric,         ///< alphanumeric without being alphabetic; nearly str.isnumeric
  lower,           ///< str.islower
  upper,           ///< str.isupper
  title,           ///< neither, but a capital that begins a title, such as U+01C5
  cased,           ///< has another case, or is a letter of one
  case_ignorable,  ///< does not end a word where a Greek sigma is written
  printable,       ///< repr shows it as it is
  name_start,      ///< a name may begin with it, but for the underscore
  name_part,       ///< a name may go on with it
};

/// Any thread.
[[nodiscard]] bool is_in(CharClass char_class, char32_t c);

/// str.isdigit: decimals, superscripts and their like.
[[nodiscard]] bool is_digit(char32_t c);

}  // namespace patchbay::jinja
