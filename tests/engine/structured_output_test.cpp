// Requests with grammars, through the engine: on a tiny model whose tokens are letters.

#include <gmock/gmock.h>

#include <limits>
#include <list>
#include <set>

#include "engine/core_support.h"
#include "engine/request_grammar.h"
#include "engine/spelled_model.h"
#include "patchbay/engine.hpp"
#include "patchbay/session.hpp"

namespace patchbay {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;

constexpr float k_never = -std::numeric_limits<float>::infinity();

int32_t token_of(char letter) { return letter - 'A'; }

class StructuredOutputTest : public testing::Test {
 protected:
  StructuredOutputTest()
      : model_(load_model(write_spelled_model(dir_, "model.gguf"))), grammars_(model_) {}

  Running make(Request request) {
    Running running(std::move(request));
    auto masks = grammars_.get(running.job->request);
    EXPECT_TRUE(masks) << (masks ? "" : masks.error().message);
    running.job->masks = *masks;
    return running;
  }

  Running &submit(EngineCore &core, Request request) {
    Running &running = running_.emplace_back(make(std::move(request)));
    running.job->arrival = running_.size();
    core.enqueue(running.job);
    return running;
  }

  void finish(EngineCore &core) {
    while (core.step()) {
    }
    for (Running &running : running_) running.drain();
  }

  /// Alone, on a fresh engine, with a grammar of its own.
  Running cold(const Request &request, CoreSetup setup = {}) {
    setup.limits.keep_prefixes = false;
    const auto core = make_core(model_, setup);
    GrammarCache grammars(model_);
    Running running(request);
    running.job->masks = *grammars.get(running.job->request);
    core->enqueue(running.job);
    while (core->step()) {
    }
    running.drain();
    return running;
  }

  std::vector<float> logits_of(const std::vector<int32_t> &tokens) {
    Request request;
    request.prompt = tokens;
    request.n_predict = 0;
    request.prompt_logits = true;
    return cold(request).logits;
  }

  static Request with_grammar(std::string grammar, uint64_t seed = 1, float temperature = 2) {
    Request request;
    request.prompt = {3, 9, 27, 1, 9};
    request.sampling = {
        .temperature = temperature, .top_k = 0, .top_p = 1, .min_p = 0, .seed = seed};
    request.n_predict = 40;
    request.grammar = std::move(grammar);
    return request;
  }

  static constexpr const char *k_list = R"(root ::= "[" item ("^" item)* "]"
item ::= [A-E]{1,3})";
  static constexpr const char *k_list_form = "\\[[A-E]+(\\^[A-E]+)*]";

  TempDir dir_;
  std::shared_ptr<const LoadedModel> model_;
  GrammarCache grammars_;
  std::list<Running> running_;
};

TEST_F(StructuredOutputTest, EveryAnswerThatEndsIsOfTheGrammar) {
  int n_ended = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Running running = cold(with_grammar(k_list, seed));
    ASSERT_TRUE(running.end && !running.end->error);
    const Choice &choice = running.choices[0];
    if (choice.reason != StopReason::eos) continue;
    ++n_ended;
    EXPECT_THAT(choice.text, MatchesRegex(k_list_form));
    EXPECT_NE(choice.tokens.back(), k_end) << "after ] there is nothing to draw";
  }
  EXPECT_GT(n_ended, 5);
}

TEST_F(StructuredOutputTest, AtTemperatureZeroTheBestAllowedTokenIsTaken) {
  Request request = with_grammar("root ::= [C-H] [A-D]* \"]\"", 1, 0);
  request.n_predict = 6;
  const Running running = cold(request);
  std::vector<int32_t> so_far = request.prompt;
  for (size_t i = 0; i < running.choices[0].tokens.size(); ++i) {
    const int32_t token = running.choices[0].tokens[i];
    const auto logits = logits_of(so_far);
    const auto last = std::span(logits).last(48);
    const std::string allowed = i == 0 ? "CDEFGH" : "ABCD]";
    int32_t best = token_of(allowed[0]);
    for (const char letter : allowed) {
      if (last[static_cast<size_t>(token_of(letter))] > last[static_cast<size_t>(best)])
        best = token_of(letter);
    }
    EXPECT_EQ(token, best) << i;
    so_far.push_back(token);
  }
}

TEST_F(StructuredOutputTest, TheEndIsDrawnOnlyWhereTheTextMayEnd) {
  std::set<size_t> lengths;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Request request = with_grammar("root ::= ([A-Z] [A-Z])*", seed);
    request.sampling.logit_bias = {{k_end, 3.0F}};
    const Running running = cold(request);
    const Choice &choice = running.choices[0];
    ASSERT_FALSE(running.end->error);
    if (choice.reason != StopReason::eos) continue;
    EXPECT_EQ(choice.text.size() % 2, 0U);
    EXPECT_EQ(choice.tokens.back(), k_end);
    lengths.insert(choice.text.size());
  }
  EXPECT_GT(lengths.size(), 2U);
}

TEST_F(StructuredOutputTest, AnEmptyTextHasNoToken) {
  const Running running = cold(with_grammar("root ::= \"\""));
  EXPECT_FALSE(running.end->error);
  EXPECT_EQ(running.choices[0].reason, StopReason::eos);
  EXPECT_THAT(running.choices[0].tokens, IsEmpty());
  EXPECT_EQ(running.end->usage.n_tokens_out, 0U);
}

TEST_F(StructuredOutputTest, InABatchEachFollowsItsOwn) {
  const auto core = make_core(model_);
  const std::vector<std::string> grammars{k_list, "", "root ::= \"F\"+ \"G\"", k_list,
                                          "root ::= [^A]{5}"};
  for (size_t i = 0; i < 15; ++i) submit(*core, with_grammar(grammars[i % grammars.size()], i));
  finish(*core);
  for (const Running &running : running_)
    EXPECT_EQ(running.choices, cold(running.job->request).choices);
}

TEST_F(StructuredOutputTest, ChoicesShareTheGrammarAndDrawForThemselves) {
  const auto core = make_core(model_);
  Request request = with_grammar(k_list, 5);
  request.n_choices = 4;
  const Running &running = submit(*core, request);
  finish(*core);
  std::set<std::string> texts;
  for (uint32_t i = 0; i < 4; ++i) {
    Request alone = request;
    alone.n_choices = 1;
    alone.sampling.seed += i;
    EXPECT_EQ(running.choices[i], cold(alone).choices[0]);
    texts.insert(running.choices[i].text);
  }
  EXPECT_GT(texts.size(), 1U);
}

TEST_F(StructuredOutputTest, AnAnswerWhoseMemoryWasGivenUpGoesOnWhereItWas) {
  const auto core = make_core(model_, {.n_ctx = 24, .block_size = 4});
  const std::string grammar = "root ::= (\"A\" [B-D] [E-Z]){5} \"]\"";
  for (uint64_t seed = 0; seed < 3; ++seed) {
    Request request = with_grammar(grammar, seed);
    request.prompt[0] = static_cast<int32_t>(seed);
    request.n_predict = 14;
    submit(*core, request);
  }
  finish(*core);
  EXPECT_GT(core->stats().n_preemptions, 0U);
  for (const Running &running : running_)
    EXPECT_EQ(running.choices, cold(running.job->request).choices);
}

TEST_F(StructuredOutputTest, WhatARequestDidDoesNotShowInTheNext) {
  const auto core = make_core(model_);
  const Request request = with_grammar(k_list, 3);
  submit(*core, request);
  submit(*core, with_grammar(k_list, 4)).events->cancel();
  finish(*core);
  const Running &again = submit(*core, request);
  finish(*core);
  EXPECT_EQ(running_.front().job->masks, again.job->masks) << "kept for requests of one form";
  EXPECT_EQ(running_.front().choices, again.choices);
}

TEST_F(StructuredOutputTest, ASeedDrawsTheSameAgainAndAnotherDoesNot) {
  EXPECT_EQ(cold(with_grammar(k_list, 8)).choices, cold(with_grammar(k_list, 8)).choices);
  EXPECT_NE(cold(with_grammar(k_list, 8)).choices, cold(with_grammar(k_list, 9)).choices);
}

TEST_F(StructuredOutputTest, AStopStringEndsTheAnswerBeforeTheGrammarDoes) {
  Request request = with_grammar("root ::= \"ABCDE]\"");
  request.stop = {"CD"};
  const Running running = cold(request);
  EXPECT_EQ(running.choices[0].text, "AB");
  EXPECT_EQ(running.choices[0].reason, StopReason::stop);
}

TEST_F(StructuredOutputTest, NoBiasBringsWhatTheGrammarForbids) {
  Request request = with_grammar("root ::= [AB]{8}");
  request.sampling.logit_bias = {{token_of('Z'), 1000.0F}, {token_of('A'), k_never}};
  const Running running = cold(request);
  EXPECT_EQ(running.choices[0].text, "BBBBBBBB");
}

TEST_F(StructuredOutputTest, ADeadEndEndsItsOwnRequestWithAReason) {
  const auto core = make_core(model_);
  Request dead = with_grammar("root ::= [AB]{3} \"C\"");
  dead.n_choices = 2;
  dead.sampling.logit_bias = {{token_of('C'), k_never}};
  const Running &blocked = submit(*core, dead);
  // No token of this vocabulary is written with a digit.
  const Running &without_token = submit(*core, with_grammar("root ::= \"A\" [0-9]"));
  const Running &other = submit(*core, with_grammar(k_list));
  finish(*core);
  for (const Running *running : {&blocked, &without_token}) {
    ASSERT_TRUE(running->end->error);
    EXPECT_EQ(running->end->error->code, ErrorCode::invalid_argument);
    EXPECT_THAT(running->end->error->message, HasSubstr("none of the tokens"));
  }
  EXPECT_EQ(blocked.choices[0].text.size(), 3U);
  EXPECT_EQ(other.choices, cold(other.job->request).choices);
  EXPECT_EQ(core->stats().n_kv_tokens_used, 0U);
}

TEST_F(StructuredOutputTest, IgnoringTheEndLeavesItToTheGrammar) {
  Request closed = with_grammar("root ::= \"A\"{1,4}");
  closed.ignore_eos = true;
  EXPECT_EQ(cold(closed).choices[0].text, "AAAA");
  EXPECT_EQ(cold(closed).choices[0].reason, StopReason::eos);
  Request open = with_grammar("root ::= \"A\"*");
  open.ignore_eos = true;
  EXPECT_EQ(cold(open).choices[0].reason, StopReason::length);
  // All but the end is forbidden, and so is the end: the text may stop here.
  Request forbidden = closed;
  forbidden.grammar = "root ::= \"AA\" \"B\"?";
  forbidden.sampling.logit_bias = {{token_of('B'), k_never}};
  EXPECT_EQ(cold(forbidden).choices[0].text, "AA");
  EXPECT_EQ(cold(forbidden).choices[0].reason, StopReason::eos);
}

TEST_F(StructuredOutputTest, ACutAnswerBeginsAsTheGrammarDoes) {
  Request request = with_grammar("root ::= \"ABCDE]\"");
  request.n_predict = 3;
  const Running running = cold(request);
  EXPECT_EQ(running.choices[0].text, "ABC");
  EXPECT_EQ(running.choices[0].reason, StopReason::length);
}

TEST_F(StructuredOutputTest, LogprobsAreTheModelsOwn) {
  Request request = with_grammar("root ::= \"A\" \"B\"", 1, 0);
  request.n_logprobs = 0;
  const Running running = cold(request);
  const auto logits = logits_of(request.prompt);
  const auto last = std::span(logits).last(48);
  double sum = 0;
  for (const float logit : last) sum += std::exp(static_cast<double>(logit));
  EXPECT_NEAR(running.choices[0].logprobs[0],
              last[static_cast<size_t>(token_of('A'))] - std::log(sum), 1e-4);
}

TEST_F(StructuredOutputTest, WhatCannotBeMeantIsRefusedAtSubmission) {
  Engine engine(Model::load(dir_.path() / "model.gguf"), {.n_ctx = 64, .n_threads = 1});
  const auto refusal = [&](const std::string &grammar, const std::string &json_schema) {
    Request request;
    request.prompt = {1};
    request.grammar = grammar;
    request.json_schema = json_schema;
    auto submitted = engine.submit(std::move(request));
    const auto *error = std::get_if<Error>(&submitted);
    return error == nullptr || error->code != ErrorCode::invalid_argument ? "" : error->message;
  };
  EXPECT_EQ(refusal("root ::= a", ""), "grammar: line 1, column 10: rule a is not defined");
  EXPECT_THAT(refusal("root ::= root \"a\"", ""), HasSubstr("grammar: rule root calls itself"));
  EXPECT_EQ(refusal("", R"({"properties": {"a": {"not": {}}}})"),
            "json_schema: #/properties/a/not: not is not supported");
  EXPECT_THAT(refusal("", "{"), HasSubstr("json_schema: #: the schema is not valid JSON"));
  EXPECT_EQ(refusal("root ::= \"a\"", "{}"),
            "grammar: line 1, column 1: no rule uses json_schema, which is given");
  EXPECT_THAT(refusal("root ::= json_schema", ""), HasSubstr("rule json_schema is not defined"));
}

TEST_F(StructuredOutputTest, AModelWithoutATokenizerHasNoGrammars) {
  const auto path = dir_.write("mute.gguf", build_tiny_model(tiny_llama()).bytes());
  Engine engine(Model::load(path), {.n_ctx = 64, .n_threads = 1});
  Request request = with_grammar("root ::= \"A\"");
  auto submitted = engine.submit(std::move(request));
  EXPECT_THAT(std::get<Error>(submitted).message, HasSubstr("needs a model with a tokenizer"));
}

TEST_F(StructuredOutputTest, ASessionPassesItOn) {
  Session session(Model::load(dir_.path() / "model.gguf"), {.n_ctx = 64, .n_threads = 1});
  const std::vector<int32_t> prompt{1, 2};
  GenerateOptions options;
  options.grammar = "root ::= \"HELLO\"";
  EXPECT_EQ(session.generate(prompt, options).text, "HELLO");
  options.grammar.clear();
  options.json_schema = "3";
  EXPECT_THROW((void)session.generate(prompt, options), std::invalid_argument);
}

}  // namespace
}  // namespace patchbay
