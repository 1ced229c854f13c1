#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/stop_matcher.h"
#include "tokenizer/detokenizer.h"

namespace patchbay {

/// Tokens in, text to emit out: whole characters, cut before the first stop string. A model without
/// a tokenizer gives no text. One thread at a time.
class TextStream {
 public:
  /// `shown_tokens`: control tokens that the text shows.
  TextStream(std::shared_ptr<const Tokenizer> tokenizer, std::vector<std::string> stops,
             std::vector<int32_t> shown_tokens = {})
      : stops_(std::move(stops)) {
    if (tokenizer == nullptr) return;
    detokenizer_.emplace(std::move(tokenizer), DecodeOptions{.shown = std::move(shown_tokens),
                                                             .drop_space_prefix = false});
  }

  [[nodiscard]] std::string push(int32_t token) {
    return detokenizer_ ? stops_.push(detokenizer_->push(token)) : std::string();
  }

  /// What was held back, once no token will follow.
  [[nodiscard]] std::string finish() {
    if (stops_.stopped() || !detokenizer_) return {};
    std::string rest = stops_.push(detokenizer_->finish());
    if (!stops_.stopped()) rest += stops_.finish();
    return rest;
  }

  [[nodiscard]] bool stopped() const { return stops_.stopped(); }

 private:
  std::optional<Detokenizer> detokenizer_;
  StopMatcher stops_;
};

}  // namespace patchbay
