#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace patchbay {

/// Follows the text of one JSON object (RFC 8259) byte by byte, and says where the members of the
/// outermost one stand. Blanks before the object are taken. Bytes above 0x7F are not looked at.
class JsonObjectScanner {
 public:
  enum class State {
    open,      ///< what has been read begins an object
    complete,  ///< it is one, and nothing may follow
    wrong,     ///< no object begins so
  };

  struct Member {
    std::string key;                   ///< as it is written, in its quotes
    size_t begin = std::string::npos;  ///< of the value, in bytes read; npos: not there yet
    size_t end = std::string::npos;    ///< npos: it is not complete
  };

  /// The state after one byte more. REQUIRES: the state before was open.
  State push(char c);

  [[nodiscard]] State state() const { return state_; }
  /// Of the outermost object, in their order.
  [[nodiscard]] const std::vector<Member> &members() const { return members_; }

 private:
  enum class Wants { object, first_key, key, colon, value, first_value, comma };
  enum class Lexeme { none, string, escape, hex, literal, number };
  enum class Number { minus, zero, digits, point, fraction, exponent, sign, exponent_digits };

  [[nodiscard]] bool step(char c);
  [[nodiscard]] bool step_string(char c);
  [[nodiscard]] bool step_number(char c);
  [[nodiscard]] bool begin_value(char c);
  [[nodiscard]] bool begin_key(char c);
  [[nodiscard]] bool close(char c);
  /// `end`: in bytes read.
  void end_value(size_t end);

  State state_ = State::open;
  Wants wants_ = Wants::object;
  Lexeme lexeme_ = Lexeme::none;
  Number number_ = Number::minus;
  std::string_view literal_;  // what is left of it
  int n_hex_ = 0;
  bool is_key_ = false;   // the string that is being read
  std::string brackets_;  // that are open
  size_t n_read_ = 0;
  std::vector<Member> members_;
};

}  // namespace patchbay
