// grammar_driver [MODEL]: what grammars and schemas allow, for tests in Python.
//
// Every line of standard input is a JSON object: "schema" or "grammar" (their text), "texts" to
// match, "n_walks" and "seed". The answer is one line: {"error": ...}, or "accepted" (for each
// text) and "walks": texts of random allowed tokens up to the end, of MODEL's vocabulary or of
// single bytes.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <string>

#include "engine/request_grammar.h"
#include "gguf/gguf_file.h"
#include "grammar/grammar_matcher.h"
#include "tokenizer/tokenizer.h"

namespace patchbay {
namespace {

using Json = nlohmann::json;

std::shared_ptr<const TokenTrie> byte_trie() {
  std::vector<std::string> pieces;
  for (int byte = 0; byte < 256; ++byte) pieces.emplace_back(1, static_cast<char>(byte));
  pieces.emplace_back("<eos>");
  return std::make_shared<const TokenTrie>(std::move(pieces), std::vector<int32_t>{256});
}

std::shared_ptr<const TokenTrie> model_trie(const std::string &path) {
  const auto tokenizer = Tokenizer::load(GgufFile::open(path));
  return make_token_trie(*tokenizer, static_cast<uint32_t>(tokenizer->n_vocab()));
}

/// What a byte costs on the way to the end: there are very many ways on that open brackets.
uint32_t cost_of(char byte) {
  if (byte == '[' || byte == '{') return 40;
  if (byte == ',' || (byte >= '0' && byte <= '9')) return 4;
  return 1;
}

/// The cheapest bytes that end the text (E. W. Dijkstra, Numerische Mathematik 1, 1959).
std::string cheapest_rest(GrammarStates &states, std::string_view text) {
  using State = GrammarStates::State;
  struct Reached {
    uint32_t cost = 0;
    State from = 0;
    char byte = 0;
  };
  State start = states.start();
  for (const char byte : text) start = states.step(start, static_cast<uint8_t>(byte));
  std::map<State, Reached> reached{{start, {}}};
  std::set<std::pair<uint32_t, State>> work{{0, start}};
  while (!work.empty()) {
    const auto [cost, at] = *work.begin();
    work.erase(work.begin());
    if (states.accepts(at)) {
      std::string rest;
      for (State back = at; back != start; back = reached[back].from)
        rest.insert(rest.begin(), reached[back].byte);
      return rest;
    }
    for (int i = 0; i < 256; ++i) {
      const char byte = static_cast<char>(i);
      const State to = states.step(at, static_cast<uint8_t>(byte));
      if (to == GrammarStates::k_dead) continue;
      const uint32_t cost_to = cost + cost_of(byte);
      const auto known = reached.find(to);
      if (known != reached.end() && known->second.cost <= cost_to) continue;
      if (known != reached.end()) work.erase({known->second.cost, to});
      reached[to] = {cost_to, at, byte};
      work.emplace(cost_to, to);
    }
  }
  throw std::runtime_error(fmt::format("no end can be reached after {}", text));
}

/// Draws tokens at random, and after a while those that bring the text to its end.
class Walk {
 public:
  Walk(const std::shared_ptr<const Grammar> &grammar, std::shared_ptr<TokenMasks> masks,
       uint64_t seed)
      : states_(grammar), masks_(std::move(masks)), matcher_(masks_), random_(seed) {}

  std::string run() {
    for (uint64_t n_free = random_() % 40; n_free > 0; --n_free) {
      if (!matcher_.goes_on()) return text_;
      const std::vector<int32_t> allowed = tokens_of(*matcher_.allowed().value());
      if (allowed.empty()) throw std::runtime_error("a dead end after " + text_);
      const int32_t token = allowed[random_() % allowed.size()];
      if (std::ranges::find(masks_->trie().ends(), token) != masks_->trie().ends().end())
        return text_;
      take(token);
    }
    for (const char byte : cheapest_rest(states_, text_)) take(token_of(byte));
    const TokenMask &mask = *matcher_.allowed().value();
    if (!mask.allows(masks_->trie().ends()[0])) throw std::runtime_error("no end after " + text_);
    return text_;
  }

 private:
  static std::vector<int32_t> tokens_of(const TokenMask &mask) {
    std::vector<int32_t> tokens;
    for (int32_t token = 0; token < static_cast<int32_t>(mask.n_vocab()); ++token) {
      if (mask.allows(token)) tokens.push_back(token);
    }
    return tokens;
  }

  int32_t token_of(char byte) {
    for (const int32_t token : tokens_of(*matcher_.allowed().value())) {
      if (masks_->trie().piece(token) == std::string_view(&byte, 1)) return token;
    }
    throw std::runtime_error(fmt::format("byte {} is not allowed after {}", int{byte}, text_));
  }

  void take(int32_t token) {
    text_ += masks_->trie().piece(token);
    if (!matcher_.accept(token)) throw std::runtime_error("too ambiguous after " + text_);
  }

  GrammarStates states_;
  std::shared_ptr<TokenMasks> masks_;
  GrammarMatcher matcher_;
  std::mt19937_64 random_;
  std::string text_;
};

bool accepts(const std::shared_ptr<TokenMasks> &masks, const std::string &text) {
  GrammarMatcher matcher(masks);
  return matcher.read(text).value() && matcher.accepts();
}

Json answer(const Json &asked, const std::shared_ptr<const TokenTrie> &trie) {
  Request request;
  request.grammar = asked.value("grammar", "");
  request.json_schema = asked.value("schema", "");
  const auto grammar = compile_grammar(request);
  if (!grammar) return {{"error", grammar.error().message}};
  const auto masks = std::make_shared<TokenMasks>(*grammar, trie);
  Json accepted = Json::array();
  for (const auto &text : asked.value("texts", Json::array()))
    accepted.push_back(accepts(masks, text.get<std::string>()));
  Json walks = Json::array();
  const auto seed = asked.value("seed", uint64_t{0});
  for (uint64_t i = 0; i < asked.value("n_walks", uint64_t{0}); ++i)
    walks.push_back(Walk(*grammar, masks, seed + i).run());
  return {{"accepted", accepted}, {"walks", walks}};
}

}  // namespace
}  // namespace patchbay

int main(int argc, char **argv) {
  using namespace patchbay;
  try {
    const auto trie = argc > 1 ? model_trie(argv[1]) : byte_trie();
    for (std::string line; std::getline(std::cin, line);)
      std::cout << answer(Json::parse(line), trie).dump() << std::endl;
  } catch (const std::exception &error) {
    fmt::print(stderr, "grammar_driver: {}\n", error.what());
    return 1;
  }
  return 0;
}
