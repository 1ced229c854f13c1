#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/error.h"
#include "grammar/token_masks.h"

namespace patchbay {

/// How far one answer has got in its grammar. One thread at a time, the same for all that share the
/// masks.
class GrammarMatcher {
 public:
  explicit GrammarMatcher(std::shared_ptr<TokenMasks> masks);

  /// The tokens that may come next; valid until anybody uses the same masks. invalid_argument: see
  /// TokenMasks::at.
  [[nodiscard]] Expected<const TokenMask *> allowed();

  /// Appends a token that allowed() allows. A token that ends answers changes nothing.
  /// invalid_argument: see TokenMasks::at.
  [[nodiscard]] Expected<void> accept(int32_t token);
  /// Appends text, or says that the grammar has none that begins so and changes nothing.
  [[nodiscard]] Expected<bool> read(std::string_view bytes);

  /// The text may end here.
  [[nodiscard]] bool accepts() const { return accepts_; }
  /// Something may follow.
  [[nodiscard]] bool goes_on() const { return goes_on_; }

 private:
  [[nodiscard]] Expected<void> catch_up();
  void stand(TokenMasks::State state);

  std::shared_ptr<TokenMasks> masks_;
  TokenMasks::State state_ = GrammarStates::k_dead;  // of epoch_
  uint32_t epoch_ = 0;
  std::string text_;  // read so far, for when the states are forgotten
  bool accepts_ = false;
  bool goes_on_ = false;
};

}  // namespace patchbay
