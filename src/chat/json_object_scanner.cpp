#include "chat/json_object_scanner.h"

namespace patchbay {
namespace {

// Whoever reads the text recurses once per level.
constexpr size_t k_most_depth = 100;

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex_digit(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

}  // namespace

JsonObjectScanner::State JsonObjectScanner::push(char c) {
  if (!step(c)) state_ = State::wrong;
  ++n_read_;
  return state_;
}

bool JsonObjectScanner::step(char c) {
  switch (lexeme_) {
    case Lexeme::string:
    case Lexeme::escape:
    case Lexeme::hex:
      return step_string(c);
    case Lexeme::literal:
      if (c != literal_.front()) return false;
      literal_.remove_prefix(1);
      if (!literal_.empty()) return true;
      end_value(n_read_ + 1);
      return true;
    case Lexeme::number:
      if (step_number(c)) return true;
      if (number_ != Number::zero && number_ != Number::digits && number_ != Number::fraction &&
          number_ != Number::exponent_digits)
        return false;
      end_value(n_read_);  // and this byte comes behind it
      break;
    case Lexeme::none:
      break;
  }
  if (is_blank(c)) return true;
  switch (wants_) {
    case Wants::object:
      if (c != '{') return false;
      brackets_ = c;
      wants_ = Wants::first_key;
      return true;
    case Wants::first_key:
      return c == '}' ? close(c) : begin_key(c);
    case Wants::key:
      return begin_key(c);
    case Wants::colon:
      wants_ = Wants::value;
      return c == ':';
    case Wants::first_value:
      return c == ']' ? close(c) : begin_value(c);
    case Wants::value:
      return begin_value(c);
    case Wants::comma:
      if (c != ',') return close(c);
      wants_ = brackets_.back() == '{' ? Wants::key : Wants::value;
      return true;
  }
  return false;
}

bool JsonObjectScanner::begin_key(char c) {
  if (c != '"') return false;
  lexeme_ = Lexeme::string;
  is_key_ = true;
  if (brackets_.size() == 1) members_.push_back({.key = "\""});
  return true;
}

bool JsonObjectScanner::begin_value(char c) {
  if (brackets_.size() == 1) members_.back().begin = n_read_;
  constexpr std::string_view k_true = "rue";
  constexpr std::string_view k_false = "alse";
  constexpr std::string_view k_null = "ull";
  switch (c) {
    case '{':
    case '[':
      if (brackets_.size() == k_most_depth) return false;
      brackets_ += c;
      wants_ = c == '{' ? Wants::first_key : Wants::first_value;
      return true;
    case '"':
      lexeme_ = Lexeme::string;
      is_key_ = false;
      return true;
    case 't':
    case 'f':
    case 'n':
      lexeme_ = Lexeme::literal;
      literal_ = c == 't' ? k_true : c == 'f' ? k_false : k_null;
      return true;
    default:
      if (c != '-' && !is_digit(c)) return false;
      lexeme_ = Lexeme::number;
      number_ = c == '-' ? Number::minus : c == '0' ? Number::zero : Number::digits;
      return true;
  }
}

bool JsonObjectScanner::step_string(char c) {
  if (is_key_ && brackets_.size() == 1) members_.back().key += c;
  if (lexeme_ == Lexeme::hex) {
    if (--n_hex_ == 0) lexeme_ = Lexeme::string;
    return is_hex_digit(c);
  }
  if (lexeme_ == Lexeme::escape) {
    lexeme_ = c == 'u' ? Lexeme::hex : Lexeme::string;
    n_hex_ = 4;
    return std::string_view("\"\\/bfnrtu").find(c) != std::string_view::npos;
  }
  if (c == '\\') {
    lexeme_ = Lexeme::escape;
  } else if (c == '"') {
    if (is_key_) {
      lexeme_ = Lexeme::none;
      wants_ = Wants::colon;
    } else {
      end_value(n_read_ + 1);
    }
  }
  return static_cast<unsigned char>(c) >= 0x20;
}

/// Whether the number goes on with this byte.
bool JsonObjectScanner::step_number(char c) {
  switch (number_) {
    case Number::minus:
      if (!is_digit(c)) return false;
      number_ = c == '0' ? Number::zero : Number::digits;
      return true;
    case Number::zero:
    case Number::digits:
      if (number_ == Number::digits && is_digit(c)) return true;
      if (c != '.' && c != 'e' && c != 'E') return false;
      number_ = c == '.' ? Number::point : Number::exponent;
      return true;
    case Number::point:
      if (!is_digit(c)) return false;
      number_ = Number::fraction;
      return true;
    case Number::fraction:
      if (is_digit(c)) return true;
      if (c != 'e' && c != 'E') return false;
      number_ = Number::exponent;
      return true;
    case Number::exponent:
      if (c == '+' || c == '-') {
        number_ = Number::sign;
        return true;
      }
      [[fallthrough]];
    case Number::sign:
      if (!is_digit(c)) return false;
      number_ = Number::exponent_digits;
      return true;
    case Number::exponent_digits:
      return is_digit(c);
  }
  return false;
}

bool JsonObjectScanner::close(char c) {
  if (c != (brackets_.back() == '{' ? '}' : ']')) return false;
  brackets_.pop_back();
  if (brackets_.empty()) {
    state_ = State::complete;
    return true;
  }
  end_value(n_read_ + 1);
  return true;
}

void JsonObjectScanner::end_value(size_t end) {
  lexeme_ = Lexeme::none;
  wants_ = Wants::comma;
  if (brackets_.size() == 1) members_.back().end = end;
}

}  // namespace patchbay
