#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace patchbay {

/// What is wrong with a text, at which byte. The reader of the text that throws it catches it.
struct TextRefusal {
  size_t pos = 0;
  std::string problem;
};

/// How far a text has been read. The text outlives it.
class TextCursor {
 protected:
  explicit TextCursor(std::string_view text) : text_(text) {}

  [[noreturn]] static void refuse_at(size_t pos, std::string problem) {
    // NOLINTNEXTLINE(bugprone-std-exception-baseclass): it does not leave the parsers
    throw TextRefusal{pos, std::move(problem)};
  }
  [[noreturn]] void refuse(std::string problem) const { refuse_at(pos_, std::move(problem)); }

  [[nodiscard]] bool at_end() const { return pos_ == text_.size(); }
  [[nodiscard]] bool next_is(std::string_view wanted) const {
    return text_.substr(pos_).starts_with(wanted);
  }
  bool take(std::string_view wanted) {
    if (!next_is(wanted)) return false;
    pos_ += wanted.size();
    return true;
  }

  std::string_view text_;
  size_t pos_ = 0;
};

}  // namespace patchbay
