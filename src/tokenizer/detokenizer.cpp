#include "tokenizer/detokenizer.h"

#include <algorithm>

namespace patchbay {

void PieceJoiner::push(int32_t token, std::string &out) {
  const bool is_shown =
      options_.show_control || std::ranges::find(options_.shown, token) != options_.shown.end();
  if (!is_shown && tokenizer_.is_control(token)) return;
  std::string_view piece = tokenizer_.piece(token);
  if (is_at_start_ && options_.drop_space_prefix && tokenizer_.adds_space_prefix() &&
      piece.starts_with(' ')) {
    piece.remove_prefix(1);
  }
  is_at_start_ = false;
  repair_.push(piece, out);
}

std::string Detokenizer::push(int32_t token) {
  std::string text;
  joiner_.push(token, text);
  return text;
}

std::string Detokenizer::finish() {
  std::string text;
  joiner_.finish(text);
  return text;
}

}  // namespace patchbay
