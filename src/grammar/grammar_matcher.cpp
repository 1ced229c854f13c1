#include "grammar/grammar_matcher.h"

#include <algorithm>
#include <cassert>

namespace patchbay {

GrammarMatcher::GrammarMatcher(std::shared_ptr<TokenMasks> masks)
    : masks_(std::move(masks)), epoch_(masks_->epoch()) {
  stand(masks_->start());
}

Expected<const TokenMask *> GrammarMatcher::allowed() {
  if (const auto caught_up = catch_up(); !caught_up) return tl::unexpected(caught_up.error());
  return masks_->at(state_);
}

Expected<void> GrammarMatcher::accept(int32_t token) {
  const auto went_on = read(masks_->trie().piece(token));
  if (!went_on) return tl::unexpected(went_on.error());
  assert(*went_on);
  return {};
}

Expected<bool> GrammarMatcher::read(std::string_view bytes) {
  if (const auto caught_up = catch_up(); !caught_up) return tl::unexpected(caught_up.error());
  const auto next = masks_->read(state_, bytes);
  if (!next) return tl::unexpected(next.error());
  if (*next == GrammarStates::k_dead) return false;
  text_ += bytes;
  stand(*next);
  return true;
}

/// Reads the text again where the states have been forgotten.
Expected<void> GrammarMatcher::catch_up() {
  masks_->make_room();
  if (epoch_ == masks_->epoch()) return {};
  const auto state = masks_->read(masks_->start(), text_);
  if (!state) return tl::unexpected(state.error());
  if (masks_->is_full()) {
    return fail(ErrorCode::invalid_argument,
                "the text is too deeply nested for the memory that a grammar may take");
  }
  epoch_ = masks_->epoch();
  stand(*state);
  return {};
}

void GrammarMatcher::stand(TokenMasks::State state) {
  state_ = state;
  accepts_ = masks_->accepts(state);
  goes_on_ = masks_->goes_on(state);
}

}  // namespace patchbay
