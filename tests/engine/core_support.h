#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine_core.h"
#include "engine/session_store.h"
#include "engine/step_support.h"

namespace patchbay {

struct CoreSetup {
  uint32_t n_ctx = 256;
  uint32_t block_size = 4;
  EngineCore::Limits limits{.n_ubatch = 256, .n_prefill_beside = 128, .n_seqs_max = 16};
  ggml_type cache_type = GGML_TYPE_F32;
  uint32_t n_threads = 1;
  AttentionForm attention = AttentionForm::automatic;
  size_t cache_memory_bytes = 0;
};

inline std::unique_ptr<EngineCore> make_core(std::shared_ptr<const LoadedModel> model,
                                             const CoreSetup &setup = {}) {
  auto executor = std::make_unique<Executor>(
      std::move(model), Executor::Options{.kv = {.n_ctx = setup.n_ctx,
                                                 .n_seqs_max = setup.limits.n_seqs_max,
                                                 .n_ubatch = setup.limits.n_ubatch,
                                                 .block_size = setup.block_size},
                                          .cache_type = setup.cache_type,
                                          .n_threads = setup.n_threads,
                                          .attention = setup.attention,
                                          .cache_memory_bytes = setup.cache_memory_bytes});
  EngineCore::Limits limits = setup.limits;
  limits.n_ctx = std::min(setup.n_ctx, executor->model().hparams().n_ctx_train);
  return std::make_unique<EngineCore>(
      std::move(executor), limits,
      EngineCore::Outside{.notify = [](const auto &) {}, .left_queue = [](const auto &) {}});
}

/// The file that the engine would save of these tokens; empty when there is nothing of them.
inline std::vector<std::byte> save_session(EngineCore &core, const SessionTokens &tokens) {
  std::vector<std::byte> bytes;
  const HeldSession held = collect_session(core.executor(), tokens);
  if (held.prefix.n_tokens == 0) return bytes;
  const SessionTarget target{.model = {}, .geometry = core.executor().kv_geometry()};
  encode_session(session_of(target, tokens, held), [&](std::span<const std::byte> piece) {
    bytes.insert(bytes.end(), piece.begin(), piece.end());
  });
  return bytes;
}

/// Returns how many tokens of it are there now.
inline uint32_t restore_session(EngineCore &core, std::span<const std::byte> bytes,
                                const std::string &tenant) {
  const SessionFile file = decode_session("session", bytes);
  return core.executor().load(tenant, {file.tokens, worn_of(file)}, file.blocks);
}

/// One answer of a request, put together from its events.
struct Choice {
  std::vector<int32_t> tokens;
  std::string text;
  std::vector<float> logprobs;
  std::optional<StopReason> reason;

  bool operator==(const Choice &) const = default;
};

/// A request under way and everything it has been told.
struct Running {
  explicit Running(Request request) : choices(request.n_choices) {
    events = std::make_shared<EventQueue>(nullptr);
    job = std::make_shared<Job>();
    job->events = events;
    job->request = std::move(request);
  }

  void drain() {
    while (auto event = events->try_next()) std::visit(*this, *event);
  }

  void operator()(const TokenEvent &event) {
    Choice &choice = choices.at(event.i_choice);
    EXPECT_FALSE(choice.reason) << "a token after the end of its choice";
    choice.tokens.push_back(event.token);
    choice.text += event.text;
    choice.logprobs.push_back(event.logprob);
  }
  void operator()(const LogitsEvent &event) {
    EXPECT_EQ(event.first == 0, logits.empty());
    logits.insert(logits.end(), event.logits.begin(), event.logits.end());
  }
  void operator()(const EmbeddingEvent &event) {
    EXPECT_TRUE(embedding.empty()) << "a second embedding";
    embedding = event.values;
  }
  void operator()(const ChoiceEnd &event) {
    choices.at(event.i_choice).text += event.text;
    choices.at(event.i_choice).reason = event.reason;
  }
  void operator()(const RequestEnd &event) {
    EXPECT_FALSE(end) << "a second end";
    end = event;
  }

  std::shared_ptr<Job> job;
  std::shared_ptr<EventQueue> events;
  std::vector<Choice> choices;
  std::vector<float> logits;
  std::vector<float> embedding;
  std::optional<RequestEnd> end;
};

/// The request alone on a fresh engine with plenty of memory and no prefix cache.
inline Running run_cold(const std::shared_ptr<const LoadedModel> &model, const Request &request,
                        CoreSetup setup = {}) {
  setup.limits.keep_prefixes = false;
  const auto core = make_core(model, setup);
  Running running(request);
  core->enqueue(running.job);
  while (core->step()) {
  }
  running.drain();
  EXPECT_TRUE(running.end);
  return running;
}

}  // namespace patchbay
