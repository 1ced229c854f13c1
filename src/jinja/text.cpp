#include "jinja/text.h"

#include <algorithm>
#include <cstring>

#include "base/utf8.h"
#include "jinja/error.h"
#include "jinja/limits.h"

namespace patchbay::jinja {

namespace {

bool begins_char(char byte) { return (static_cast<uint8_t>(byte) & 0xC0) != 0x80; }

/// Where the character that ends at `end` begins.
size_t char_before(std::string_view text, size_t end) {
  size_t pos = end - 1;
  while (pos > 0 && !begins_char(text[pos])) --pos;
  return pos;
}

char32_t char_at(std::string_view text, size_t pos) { return next_char(text, pos); }

bool is_stripped(std::string_view text, size_t pos, const std::string *chars) {
  if (chars == nullptr) return is_space(char_at(text, pos));
  const auto one = text.substr(pos, utf8_size_at(text, pos));
  return chars->find(one) != std::string::npos;
}

/// Bytes of the line break at `pos`; 0 where there is none.
size_t line_break_size(std::string_view text, size_t pos) {
  const char first = text[pos];
  if (first == '\r') return text.substr(pos + 1, 1) == "\n" ? 2 : 1;
  if (first == '\n' || first == '\v' || first == '\f' || (first >= 0x1C && first <= 0x1E)) return 1;
  if (static_cast<uint8_t>(first) < 0x80) return 0;
  const char32_t c = char_at(text, pos);
  return c == 0x85 || c == 0x2028 || c == 0x2029 ? utf8_size_at(text, pos) : 0;
}

bool is_more(size_t n_done, Int max_count) {
  return max_count < 0 || static_cast<Int>(n_done) < max_count;
}

/// A start or stop of a slice as an index from `lowest` to `highest`.
Int clamped(std::optional<Int> index, Int otherwise, Int length, Int lowest, Int highest) {
  if (!index) return otherwise;
  const Int from_front = *index < 0 ? std::max<Int>(*index, -length - 1) + length : *index;
  return std::clamp(from_front, lowest, highest);
}

}  // namespace

size_t n_chars(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), begins_char));
}

char32_t next_char(std::string_view text, size_t &pos) {
  const size_t size = utf8_size_at(text, pos);
  const auto lead = static_cast<uint8_t>(text[pos]);
  char32_t c = size == 1 ? lead : lead & (0xFFU >> (size + 1));
  for (size_t i = 1; i < size; ++i) {
    c = (c << 6) | (static_cast<uint8_t>(text[pos + i]) & 0x3FU);
  }
  pos += size;
  return c;
}

bool is_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x1F);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

std::optional<size_t> find_text(std::string_view text, std::string_view needle, size_t begin) {
  if (begin > text.size()) return std::nullopt;
  if (needle.empty()) return begin;
  // std::string_view::find takes quadratic time for unfortunate pairs, which a stranger can choose.
  const void *found =
      memmem(text.data() + begin, text.size() - begin, needle.data(), needle.size());
  if (found == nullptr) return std::nullopt;
  return static_cast<size_t>(static_cast<const char *>(found) - text.data());
}

std::optional<size_t> find_last_text(std::string_view text, std::string_view needle) {
  if (needle.empty()) return text.size();
  const std::string reversed_text(text.rbegin(), text.rend());
  const std::string reversed_needle(needle.rbegin(), needle.rend());
  const auto found = find_text(reversed_text, reversed_needle);
  if (!found) return std::nullopt;
  return text.size() - *found - needle.size();
}

size_t byte_of_char(std::string_view text, size_t index) {
  if (n_chars(text) == text.size()) return std::min(index, text.size());
  size_t pos = 0;
  for (; index > 0 && pos < text.size(); --index) pos += utf8_size_at(text, pos);
  return pos;
}

SliceRange resolve_slice(std::optional<Int> start, std::optional<Int> stop, std::optional<Int> step,
                         size_t length) {
  const Int by = step.value_or(1);
  if (by == 0) value_error("slice step cannot be zero");
  const auto n = static_cast<Int>(length);
  const Int first = by > 0 ? clamped(start, 0, n, 0, n) : clamped(start, n - 1, n, -1, n - 1);
  const Int last = by > 0 ? clamped(stop, n, n, 0, n) : clamped(stop, -1, n, -1, n - 1);
  SliceRange range{.start = first, .step = by};
  if (by > 0 && last > first) range.count = static_cast<size_t>((last - first - 1) / by + 1);
  // Not -by: the lowest integer has no positive counterpart.
  if (by < 0 && last < first) range.count = static_cast<size_t>((last - first + 1) / by + 1);
  return range;
}

std::string slice_text(std::string_view text, const SliceRange &slice) {
  if (slice.count == 0) return {};
  std::vector<size_t> begins;  // only where characters are not bytes
  const bool is_ascii = n_chars(text) == text.size();
  if (!is_ascii) {
    for (size_t pos = 0; pos < text.size(); pos += utf8_size_at(text, pos)) begins.push_back(pos);
    begins.push_back(text.size());
  }
  const auto begin_of = [&](Int i) {
    return is_ascii ? static_cast<size_t>(i) : begins[static_cast<size_t>(i)];
  };
  if (slice.step == 1) {
    const size_t begin = begin_of(slice.start);
    const size_t end = begin_of(slice.start + static_cast<Int>(slice.count));
    return std::string(text.substr(begin, end - begin));
  }
  std::string out;
  Int at = slice.start;
  for (size_t i = 0; i < slice.count; ++i) {
    const size_t begin = begin_of(at);
    out += text.substr(begin, begin_of(at + 1) - begin);
    if (i + 1 < slice.count) at += slice.step;
  }
  return out;
}

std::string_view strip(std::string_view text, Sides sides, const std::string *chars) {
  while (sides.left && !text.empty() && is_stripped(text, 0, chars)) {
    text.remove_prefix(utf8_size_at(text, 0));
  }
  while (sides.right && !text.empty()) {
    const size_t pos = char_before(text, text.size());
    if (!is_stripped(text, pos, chars)) break;
    text = text.substr(0, pos);
  }
  return text;
}

std::vector<std::string_view> split_space(std::string_view text, Int max_splits) {
  std::vector<std::string_view> parts;
  text = strip(text, {.left = true, .right = false});
  while (!text.empty()) {
    if (!is_more(parts.size(), max_splits)) {
      parts.push_back(text);
      break;
    }
    size_t end = 0;
    while (end < text.size() && !is_space(char_at(text, end))) end += utf8_size_at(text, end);
    parts.push_back(text.substr(0, end));
    text = strip(text.substr(end), {.left = true, .right = false});
  }
  return parts;
}

std::vector<std::string_view> split_space_from_right(std::string_view text, Int max_splits) {
  std::vector<std::string_view> parts;
  text = strip(text, {.left = false, .right = true});
  while (!text.empty()) {
    if (!is_more(parts.size(), max_splits)) {
      parts.push_back(text);
      break;
    }
    size_t begin = text.size();
    while (begin > 0 && !is_space(char_at(text, char_before(text, begin)))) {
      begin = char_before(text, begin);
    }
    parts.push_back(text.substr(begin));
    text = strip(text.substr(0, begin), {.left = false, .right = true});
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string_view> split_at(std::string_view text, std::string_view separator,
                                       Int max_splits) {
  std::vector<std::string_view> parts;
  while (is_more(parts.size(), max_splits)) {
    const auto at = find_text(text, separator);
    if (!at) break;
    parts.push_back(text.substr(0, *at));
    text.remove_prefix(*at + separator.size());
  }
  parts.push_back(text);
  return parts;
}

std::vector<std::string_view> split_at_from_right(std::string_view text, std::string_view separator,
                                                  Int max_splits) {
  const std::string text_back(text.rbegin(), text.rend());
  const std::string separator_back(separator.rbegin(), separator.rend());
  std::vector<std::string_view> parts;
  size_t end = text.size();
  for (const std::string_view part : split_at(text_back, separator_back, max_splits)) {
    parts.push_back(text.substr(end - part.size(), part.size()));
    end -= std::min(end, part.size() + separator.size());
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  size_t begin = 0;
  for (size_t pos = 0; pos < text.size();) {
    const size_t n_break = line_break_size(text, pos);
    if (n_break == 0) {
      pos += utf8_size_at(text, pos);
      continue;
    }
    lines.push_back(text.substr(begin, pos - begin + (keep_ends ? n_break : 0)));
    begin = pos += n_break;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

std::string replace_text(std::string_view text, std::string_view old_text,
                         std::string_view new_text, Int max_count) {
  std::string out;
  size_t pos = 0;
  const auto append = [&](std::string_view part) {
    out += part;
    check_value_size(out.size());
  };
  for (size_t n_done = 0; is_more(n_done, max_count); ++n_done) {
    if (old_text.empty()) {  // between all characters and at both ends
      append(new_text);
      if (pos == text.size()) return out;
      const size_t size = utf8_size_at(text, pos);
      append(text.substr(pos, size));
      pos += size;
      continue;
    }
    const auto found = find_text(text, old_text, pos);
    if (!found) break;
    append(text.substr(pos, *found - pos));
    append(new_text);
    pos = *found + old_text.size();
  }
  append(text.substr(pos));
  return out;
}

std::string repeat_text(std::string_view text, Int count) {
  if (count <= 0 || text.empty()) return {};
  check_value_size(static_cast<size_t>(std::min<Int>(count, k_max_value_size + 1)), text.size());
  const size_t size = text.size() * static_cast<size_t>(count);
  std::string out(text);
  out.reserve(size);
  while (out.size() * 2 <= size) out += out;
  return out.append(out, 0, size - out.size());
}

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace patchbay::jinja
