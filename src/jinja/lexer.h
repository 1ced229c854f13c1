#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "jinja/value.h"

namespace patchbay::jinja {

enum class TokenKind {
  data,  ///< text between tags
  variable_begin,
  variable_end,
  block_begin,
  block_end,
  name,
  string,
  integer,
  real,
  op,
  end,
};

struct Token {
  TokenKind kind = TokenKind::end;
  int line = 1;
  std::string text;  ///< data, name, string (unescaped), operator
  Value number;      ///< integer, real
};

/// Splits a template as jinja2 does with trim_blocks and lstrip_blocks: comments and what
/// whitespace control takes away are gone. The last token is `end`. Throws SyntaxError.
/// REQUIRES: valid UTF-8.
[[nodiscard]] std::vector<Token> tokenize_template(std::string_view source);

}  // namespace patchbay::jinja
