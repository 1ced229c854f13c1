#include "jinja/token_stream.h"

#include "jinja/limits.h"

namespace patchbay::jinja {

std::string TokenStream::described() const {
  switch (current().kind) {
    case TokenKind::data:
      return "template data / text";
    case TokenKind::variable_begin:
      return "begin of print statement";
    case TokenKind::variable_end:
      return "end of print statement";
    case TokenKind::block_begin:
      return "begin of statement block";
    case TokenKind::block_end:
      return "end of statement block";
    case TokenKind::string:
      return "string";
    case TokenKind::integer:
      return "integer";
    case TokenKind::real:
      return "float";
    case TokenKind::end:
      return "end of template";
    case TokenKind::name:
    case TokenKind::op:
      return current().text;
  }
  return {};
}

NestingGuard::NestingGuard(int &n_levels, int line) : n_levels_(n_levels) {
  if (n_levels >= k_max_nesting) {
    throw SyntaxError(line, fmt::format("nested more than {} levels deep", k_max_nesting));
  }
  ++n_levels;
}

}  // namespace patchbay::jinja
