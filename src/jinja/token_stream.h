#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jinja/lexer.h"
#include "jinja/syntax_error.h"

namespace patchbay::jinja {

/// Tokens one after the other, with a look ahead.
class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  [[nodiscard]] const Token &current() const { return tokens_[at_]; }
  [[nodiscard]] const Token &next() const {
    return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_];
  }
  [[nodiscard]] int line() const { return current().line; }

  [[nodiscard]] bool is(TokenKind kind) const { return current().kind == kind; }
  [[nodiscard]] bool is_op(std::string_view op) const {
    return is(TokenKind::op) && current().text == op;
  }
  [[nodiscard]] bool is_name(std::string_view name) const {
    return is(TokenKind::name) && current().text == name;
  }

  Token take() {
    Token token = current();
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  bool skip_op(std::string_view op) { return skip_if(is_op(op)); }
  bool skip_name(std::string_view name) { return skip_if(is_name(name)); }

  void expect_op(std::string_view op) {
    if (!skip_op(op)) refuse_token(op);
  }
  void expect_name(std::string_view name) {
    if (!skip_name(name)) refuse_token(name);
  }
  std::string expect_any_name() {
    if (!is(TokenKind::name)) refuse_token("name");
    return take().text;
  }
  void expect_end(TokenKind kind) {
    if (!is(kind)) {
      refuse_token(kind == TokenKind::block_end ? "end of statement block"
                                                : "end of print statement");
    }
    take();
  }

  [[noreturn]] void refuse(const std::string &message) const { throw SyntaxError(line(), message); }
  [[noreturn]] void refuse_token(std::string_view wanted) const {
    if (is(TokenKind::end)) {
      refuse(fmt::format("unexpected end of template, expected '{}'.", wanted));
    }
    refuse(fmt::format("expected token '{}', got '{}'", wanted, described()));
  }
  [[nodiscard]] std::string described() const;

 private:
  bool skip_if(bool condition) {
    if (condition) take();
    return condition;
  }

  std::vector<Token> tokens_;
  size_t at_ = 0;
};

/// Counts levels of nesting for as long as it lives. Throws SyntaxError when they are too many.
class NestingGuard {
 public:
  NestingGuard(int &n_levels, int line);
  NestingGuard(const NestingGuard &) = delete;
  NestingGuard &operator=(const NestingGuard &) = delete;
  ~NestingGuard() { --n_levels_; }

 private:
  int &n_levels_;
};

}  // namespace patchbay::jinja
