#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "base/error.h"
#include "engine/loaded_model.h"
#include "grammar/grammar.h"
#include "grammar/token_masks.h"
#include "patchbay/request.hpp"

namespace patchbay {

/// The grammar that a request's answers must be of; null when it names none. invalid_argument, with
/// the place in its text that is wrong.
[[nodiscard]] Expected<std::shared_ptr<const Grammar>> compile_grammar(const Request &request);

/// The grammars of the last requests with what was found out about their states, so that requests
/// of one form need not find it out again. Any thread; the masks themselves belong to the engine's.
class GrammarCache {
 public:
  explicit GrammarCache(std::shared_ptr<const LoadedModel> model) : model_(std::move(model)) {}

  /// Null when the request names no grammar. invalid_argument: see compile_grammar(), and a model
  /// without a tokenizer.
  [[nodiscard]] Expected<std::shared_ptr<TokenMasks>> get(const Request &request);

 private:
  struct Entry {
    std::string grammar;
    std::string json_schema;
    std::shared_ptr<TokenMasks> masks;
  };

  [[nodiscard]] std::shared_ptr<TokenMasks> find(const Request &request);
  void keep(Entry entry);

  std::shared_ptr<const LoadedModel> model_;
  std::mutex mutex_;
  std::deque<Entry> entries_;  // last used first
};

}  // namespace patchbay
