#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "jinja/value.h"

// Python's string operations over UTF-8: positions and lengths that a template sees count
// characters. REQUIRES throughout: valid UTF-8.
namespace patchbay::jinja {

[[nodiscard]] size_t n_chars(std::string_view text);

/// The code point at byte `pos`, which moves behind it.
[[nodiscard]] char32_t next_char(std::string_view text, size_t &pos);

/// Whether Python's str.isspace holds, which is also what \s means there.
[[nodiscard]] bool is_space(char32_t c);

/// Byte position of the first `needle` from byte `begin` on. Linear time.
[[nodiscard]] std::optional<size_t> find_text(std::string_view text, std::string_view needle,
                                              size_t begin = 0);

/// Byte position of the last `needle`.
[[nodiscard]] std::optional<size_t> find_last_text(std::string_view text, std::string_view needle);

/// Byte position of character `index`; the end when there are not so many.
[[nodiscard]] size_t byte_of_char(std::string_view text, size_t index);

/// What a Python slice of `length` things takes: `count` of them from `start`, each `step` on.
struct SliceRange {
  Int start = 0;
  Int step = 1;
  size_t count = 0;
};

/// Throws RenderError when `step` is 0.
[[nodiscard]] SliceRange resolve_slice(std::optional<Int> start, std::optional<Int> stop,
                                       std::optional<Int> step, size_t length);

[[nodiscard]] std::string slice_text(std::string_view text, const SliceRange &slice);

struct Sides {
  bool left = true;
  bool right = true;
};

/// Without what `chars` holds at its ends; without whitespace when it is null.
[[nodiscard]] std::string_view strip(std::string_view text, Sides sides = {},
                                     const std::string *chars = nullptr);

/// At whitespace; `max_splits` below 0: all. What is left over keeps its outer whitespace.
[[nodiscard]] std::vector<std::string_view> split_space(std::string_view text, Int max_splits);
[[nodiscard]] std::vector<std::string_view> split_space_from_right(std::string_view text,
                                                                   Int max_splits);

/// At each `separator`. REQUIRES: it is not empty.
[[nodiscard]] std::vector<std::string_view> split_at(std::string_view text,
                                                     std::string_view separator, Int max_splits);
[[nodiscard]] std::vector<std::string_view> split_at_from_right(std::string_view text,
                                                                std::string_view separator,
                                                                Int max_splits);

/// At the line breaks of str.splitlines, which are more than "\n".
[[nodiscard]] std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends);

/// `max_count` below 0: all. Throws RenderError when the result would be too large.
[[nodiscard]] std::string replace_text(std::string_view text, std::string_view old_text,
                                       std::string_view new_text, Int max_count = -1);

/// `text` `count` times. Throws RenderError when that would be too large.
[[nodiscard]] std::string repeat_text(std::string_view text, Int count);

/// & < > ' and " as HTML entities, as markupsafe.escape writes them.
[[nodiscard]] std::string escape_html(std::string_view text);

}  // namespace patchbay::jinja
