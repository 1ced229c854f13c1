// grammar_bench MODEL [ROUNDS]: what it costs to keep answers to a grammar.
//
// Reads the tokenizer of MODEL only. For each grammar a text of it is followed token by token; what
// is measured is the CPU time of one token: the mask of those that may come next, leaving the
// others out of the logits, and going on with the one that comes. Prints JSON, one object a line,
// in microseconds: mean and worst of the first request with a grammar (cold), whose states and
// masks are found as they are needed, mean and worst of the next one (warm), the time to compile,
// and memory. The least of ROUNDS for each token, since others may use the machine.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "gguf/gguf_file.h"
#include "grammar/gbnf_parser.h"
#include "grammar/grammar_matcher.h"
#include "tokenizer/tokenizer.h"

namespace patchbay {
namespace {

using Json = nlohmann::ordered_json;

double now_us() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

constexpr const char *k_json = R"(
root   ::= object
value  ::= object | array | string | number | "true" | "false" | "null"
object ::= "{" ws (string ":" ws value ("," ws string ":" ws value)*)? "}" ws
array  ::= "[" ws (value ("," ws value)*)? "]" ws
string ::= "\"" ([^"\\\x00-\x1F] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4}))* "\"" ws
number ::= "-"? ("0" | [1-9] [0-9]{0,15}) ("." [0-9]+)? ([eE] [-+]? [0-9]+)? ws
ws     ::= [ \n\t]{0,20}
)";

constexpr const char *k_person = R"(
root   ::= "{\"name\": " string ", \"age\": " [0-9]{1,3} ", \"tags\": [" (tag (", " tag)*)? "]}"
tag    ::= "\"" ("red" | "green" | "blue" | "black" | "white") "\""
string ::= "\"" char{0,200} "\""
char   ::= [^"\\\x00-\x1F] | "\\" ["\\/bfnrt]
)";

/// Nested lists and objects with words of several scripts.
Json sample_value(uint32_t seed, int depth) {
  static const std::vector<std::string> words{"name",
                                              "The quick brown fox jumps over the lazy dog.",
                                              "größer",
                                              "значение",
                                              "数据结构",
                                              "line\nbreak",
                                              "quote \" here",
                                              "x",
                                              "https://example.org/a?b=c",
                                              "items"};
  if (depth == 0 || seed % 5 == 0) {
    if (seed % 3 == 0) return seed * 37 % 1000;
    if (seed % 7 == 0) return seed % 2 == 0;
    return words[seed % words.size()];
  }
  Json value = seed % 2 == 0 ? Json::array() : Json::object();
  for (uint32_t i = 0; i < 4; ++i) {
    Json inner = sample_value(seed * 31 + i * 7 + 1, depth - 1);
    if (value.is_array()) {
      value.push_back(std::move(inner));
    } else {
      value[words[(seed + i * 3) % words.size()] + std::to_string(i)] = std::move(inner);
    }
  }
  return value;
}

std::string long_text(size_t n_bytes) {
  std::string text;
  while (text.size() < n_bytes) text += "The quick brown fox, größer als 数据, jumps over. ";
  return text;
}

struct Case {
  std::string name;
  std::string gbnf;
  std::string text;
};

std::vector<Case> cases() {
  return {
      {"any JSON object", k_json, sample_value(3, 4).dump(1)},
      {"object with a name of at most 200 characters", k_person,
       "{\"name\": \"" + long_text(180).substr(0, 170) +
           "\", \"age\": 42, \"tags\": [\"red\", \"blue\", \"black\"]}"},
      {"[^\"]*", "root ::= [^\"]*", long_text(2000)},
      {"lines of 80 characters at most", "root ::= ([^\\n]{0,80} \"\\n\")*",
       "one line\nand another one, which is a bit longer than the first\n\nthird\n"},
      {"words of a to z", "root ::= [a-z]+ (\" \" [a-z]+)*", "the quick brown fox jumps over"},
      {"text with foo in it", "root ::= .* \"foo\" .*", long_text(300) + "foo " + long_text(300)}};
}

class Measurement {
 public:
  Measurement(const Case &measured, std::shared_ptr<const TokenTrie> trie,
              std::vector<int32_t> tokens)
      : case_(measured), trie_(std::move(trie)), tokens_(std::move(tokens)) {}

  Json measure(int n_rounds) {
    std::vector<double> compile(1, 1e30);
    std::vector<double> cold(tokens_.size(), 1e30);
    std::vector<double> warm = cold;
    size_t size_bytes = 0;
    for (int round = 0; round < n_rounds; ++round) {
      const double start = now_us();
      auto grammar =
          std::make_shared<const Grammar>(Grammar::compile(parse_gbnf(case_.gbnf).value()).value());
      auto masks = std::make_shared<TokenMasks>(grammar, trie_);
      compile[0] = std::min(compile[0], now_us() - start);
      follow(masks, cold);
      follow(masks, warm);
      size_bytes = masks->size_bytes();
    }
    return {{"grammar", case_.name},      {"n_tokens", tokens_.size()},
            {"cold_mean_us", mean(cold)}, {"cold_worst_us", std::ranges::max(cold)},
            {"warm_mean_us", mean(warm)}, {"warm_worst_us", std::ranges::max(warm)},
            {"compile_us", compile[0]},   {"size_bytes", size_bytes}};
  }

 private:
  static double mean(const std::vector<double> &values) {
    double sum = 0;
    for (const double value : values) sum += value;
    return sum / static_cast<double>(values.size());
  }

  void follow(const std::shared_ptr<TokenMasks> &masks, std::vector<double> &least) {
    GrammarMatcher matcher(masks);
    std::vector<float> logits(trie_->n_vocab(), 1);
    for (size_t i = 0; i < tokens_.size(); ++i) {
      const double start = now_us();
      const TokenMask *mask = matcher.allowed().value();
      if (!mask->allows(tokens_[i]))
        throw std::runtime_error(case_.name + " does not allow its text");
      mask->leave_out(logits);
      if (!matcher.accept(tokens_[i])) throw std::runtime_error(case_.name + " fails");
      least[i] = std::min(least[i], now_us() - start);
    }
  }

  Case case_;
  std::shared_ptr<const TokenTrie> trie_;
  std::vector<int32_t> tokens_;
};

void measure_all(const std::string &path, int n_rounds) {
  const auto tokenizer = Tokenizer::load(GgufFile::open(path));
  if (tokenizer == nullptr) throw std::runtime_error("the model has no tokenizer");
  const double start = now_us();
  const auto trie = make_token_trie(*tokenizer, static_cast<uint32_t>(tokenizer->n_vocab()));
  fmt::print("{}\n", Json{{"n_vocab", trie->n_vocab()},
                          {"n_nodes", trie->nodes().size()},
                          {"trie_ms", (now_us() - start) * 1e-3},
                          {"trie_bytes", trie->size_bytes()}}
                         .dump());
  for (const Case &measured : cases()) {
    auto tokens = tokenizer->encode(measured.text, {.add_special = false, .parse_special = false});
    fmt::print("{}\n", Measurement(measured, trie, std::move(tokens)).measure(n_rounds).dump());
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace patchbay

int main(int argc, char **argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: grammar_bench MODEL [ROUNDS]\n");
    return 2;
  }
  try {
    patchbay::measure_all(argv[1], argc > 2 ? std::atoi(argv[2]) : 5);
  } catch (const std::exception &error) {
    fmt::print(stderr, "grammar_bench: {}\n", error.what());
    return 1;
  }
  return 0;
}
