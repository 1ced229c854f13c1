#include "base/utf8.h"

#include <algorithm>

namespace patchbay {

namespace {

constexpr std::string_view k_replacement = "\xEF\xBF\xBD";  // U+FFFD

bool is_ascii(char c) { return static_cast<uint8_t>(c) < 0x80; }

}  // namespace

void Utf8Repair::push(std::string_view bytes, std::string &out) {
  while (!bytes.empty()) {
    if (n_missing_ == 0) {
      const auto *end = std::find_if_not(bytes.begin(), bytes.end(), is_ascii);
      const auto n_ascii = static_cast<size_t>(end - bytes.begin());
      out.append(bytes.substr(0, n_ascii));
      bytes.remove_prefix(n_ascii);
      if (bytes.empty()) return;
    }
    push_byte(static_cast<uint8_t>(bytes.front()), out);
    bytes.remove_prefix(1);
  }
}

void Utf8Repair::finish(std::string &out) {
  if (n_missing_ > 0) out.append(k_replacement);
  held_.clear();
  n_missing_ = 0;
}

void Utf8Repair::push_byte(uint8_t byte, std::string &out) {
  if (n_missing_ > 0 && (byte < min_next_ || byte > max_next_)) {
    finish(out);  // the ill-formed part ends before this byte, which may begin a character itself
  }
  if (n_missing_ == 0) {
    if (byte < 0x80) {
      out.push_back(static_cast<char>(byte));
    } else if (!start_character(byte)) {
      out.append(k_replacement);
    }
    return;
  }
  held_.push_back(static_cast<char>(byte));
  min_next_ = 0x80;
  max_next_ = 0xBF;
  if (--n_missing_ == 0) {
    out.append(held_);
    held_.clear();
  }
}

// The second byte is bounded so that overlong forms, surrogates and values past U+10FFFF end at the
// lead byte.
bool Utf8Repair::start_character(uint8_t byte) {
  if (byte < 0xC2 || byte > 0xF4) return false;
  n_missing_ = byte < 0xE0 ? 1 : byte < 0xF0 ? 2 : 3;
  min_next_ = byte == 0xE0 ? 0xA0 : byte == 0xF0 ? 0x90 : 0x80;
  max_next_ = byte == 0xED ? 0x9F : byte == 0xF4 ? 0x8F : 0xBF;
  held_.assign(1, static_cast<char>(byte));
  return true;
}

std::string repair_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  Utf8Repair repair;
  repair.push(bytes, out);
  repair.finish(out);
  return out;
}

bool is_valid_utf8(std::string_view bytes) { return repair_utf8(bytes) == bytes; }

size_t utf8_size_at(std::string_view text, size_t pos) {
  const auto lead = static_cast<uint8_t>(text[pos]);
  return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

char32_t code_point_at(std::string_view text, size_t pos) {
  const size_t n_bytes = utf8_size_at(text, pos);
  auto code_point = static_cast<char32_t>(static_cast<uint8_t>(text[pos]));
  if (n_bytes > 1) code_point &= 0x3FU >> (n_bytes - 1);  // the marks of the first byte
  for (const char byte : text.substr(pos + 1, n_bytes - 1))
    code_point = code_point << 6U | (static_cast<char32_t>(byte) & 0x3FU);
  return code_point;
}

std::string to_utf8(char32_t code_point) {
  const auto tail = [&](int shift) {
    return static_cast<char>(0x80 | ((code_point >> shift) & 0x3F));
  };
  if (code_point < 0x80) return {static_cast<char>(code_point)};
  if (code_point < 0x800) return {static_cast<char>(0xC0 | (code_point >> 6)), tail(0)};
  if (code_point < 0x10000) {
    return {static_cast<char>(0xE0 | (code_point >> 12)), tail(6), tail(0)};
  }
  return {static_cast<char>(0xF0 | (code_point >> 18)), tail(12), tail(6), tail(0)};
}

}  // namespace patchbay
