#include "engine/request_grammar.h"

#include <algorithm>

#include "grammar/gbnf_parser.h"
#include "grammar/json_schema_grammar.h"

namespace patchbay {
namespace {

// Each holds up to 32 MB, see token_masks.cpp; most less than three.
constexpr size_t k_most_kept = 8;

Expected<std::shared_ptr<const Grammar>> compile(const Expected<grammar::Rules> &rules,
                                                 Grammar::MustEnd must_end,
                                                 const std::string &field) {
  if (!rules) return tl::unexpected(rules.error());
  auto compiled = Grammar::compile(*rules, must_end);
  if (!compiled) return fail(compiled.error().code, field + ": " + compiled.error().message);
  return std::make_shared<const Grammar>(*std::move(compiled));
}

}  // namespace

Expected<std::shared_ptr<const Grammar>> compile_grammar(const Request &request) {
  if (request.json_schema.empty()) {
    if (request.grammar.empty()) return nullptr;
    return compile(parse_gbnf(request.grammar), Grammar::MustEnd::every_rule, "grammar");
  }
  auto schema = json_schema_rules(request.json_schema);
  if (!schema || request.grammar.empty())
    return compile(schema, Grammar::MustEnd::root, "json_schema");
  return compile(parse_gbnf_over_schema(request.grammar, *std::move(schema)),
                 Grammar::MustEnd::root, "grammar");
}

Expected<std::shared_ptr<TokenMasks>> GrammarCache::get(const Request &request) {
  if (request.grammar.empty() && request.json_schema.empty()) return nullptr;
  if (model_->tokenizer == nullptr) {
    return fail(ErrorCode::invalid_argument,
                "a grammar or json_schema needs a model with a tokenizer");
  }
  if (auto known = find(request)) return known;
  // Outside the lock: two callers may compile the same one, and each keeps its own.
  auto grammar = compile_grammar(request);
  if (!grammar) return tl::unexpected(grammar.error());
  auto trie = model_->token_trie.get(*model_->tokenizer, model_->hparams().n_vocab);
  auto masks = std::make_shared<TokenMasks>(*std::move(grammar), std::move(trie));
  keep({request.grammar, request.json_schema, masks});
  return masks;
}

std::shared_ptr<TokenMasks> GrammarCache::find(const Request &request) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(entries_, [&](const Entry &entry) {
    return entry.grammar == request.grammar && entry.json_schema == request.json_schema;
  });
  if (found == entries_.end()) return nullptr;
  std::rotate(entries_.begin(), found, found + 1);
  return entries_.front().masks;
}

void GrammarCache::keep(Entry entry) {
  const std::lock_guard lock(mutex_);
  entries_.push_front(std::move(entry));
  if (entries_.size() > k_most_kept) entries_.pop_back();
}

}  // namespace patchbay
