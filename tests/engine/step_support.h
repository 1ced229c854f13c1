#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <vector>

#include "arch/tiny_model.h"
#include "base/temp_dir.h"
#include "engine/executor.h"

namespace patchbay {

/// One sequence of a step: its tokens from position `first_pos` on, all wearing one set.
struct Stretch {
  int32_t seq_id = 0;
  std::vector<int32_t> tokens;
  AdapterSet set;
  int32_t first_pos = 0;
};

inline StepPlan plan_of(const std::vector<Stretch> &stretches) {
  StepPlan plan;
  for (const auto &stretch : stretches) {
    auto pos = stretch.first_pos;
    for (const int32_t token : stretch.tokens) {
      plan.rows.push_back({.token = token,
                           .place = {stretch.seq_id, pos++},
                           .i_set = static_cast<uint32_t>(plan.sets.size()),
                           .wants_logits = true});
    }
    plan.sets.push_back(stretch.set);
  }
  return plan;
}

inline std::shared_ptr<const LoadedModel> load_tiny(const TinyModel &model, const TempDir &dir,
                                                    const WeightOptions &options = {}) {
  return load_model(dir.write(model.name + ".gguf", build_tiny_model(model).bytes()), options);
}

inline std::unique_ptr<Executor> make_executor(
    std::shared_ptr<const LoadedModel> model, uint32_t n_ctx = 64,
    const std::vector<std::shared_ptr<const Adapter>> &adapters = {},
    LoraForm form = LoraForm::automatic, uint32_t n_threads = 1) {
  auto executor = std::make_unique<Executor>(
      std::move(model), Executor::Options{.kv = {.n_ctx = n_ctx, .block_size = 4},
                                          .cache_type = GGML_TYPE_F32,
                                          .n_threads = n_threads,
                                          .lora_form = form});
  for (const auto &adapter : adapters) executor->add_adapter(adapter);
  return executor;
}

/// Sets may be in any order.
inline std::vector<float> run_step(Executor &executor, std::vector<Stretch> stretches) {
  for (auto &stretch : stretches) stretch.set = executor.canonical(stretch.set);
  const auto logits = executor.run(plan_of(stretches));
  if (!logits) {
    ADD_FAILURE() << logits.error().message;
    return {};
  }
  return {logits->begin(), logits->end()};
}

/// The logits of one stretch alone on a fresh engine.
inline std::vector<float> run_alone(const std::shared_ptr<const LoadedModel> &model,
                                    const std::vector<std::shared_ptr<const Adapter>> &adapters,
                                    Stretch stretch, LoraForm form = LoraForm::automatic) {
  const auto executor = make_executor(model, 64, adapters, form);
  return run_step(*executor, {std::move(stretch)});
}

inline float max_difference(std::span<const float> one, std::span<const float> other) {
  if (one.size() != other.size()) {
    ADD_FAILURE() << one.size() << " logits against " << other.size();
    return INFINITY;
  }
  float most = 0;
  for (size_t i = 0; i < one.size(); ++i) most = std::max(most, std::abs(one[i] - other[i]));
  return most;
}

}  // namespace patchbay
