// What a prompt costs whose blocks had to leave the KV cache: computed again, restored from the
// host tier, or still in the cache; in turns in one process. And what saving the blocks costs the
// prompt that drives them out.
//
//   host_tier_bench MODEL [THREADS] [ROUNDS]

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <vector>

#include "patchbay/engine.hpp"

namespace patchbay {
namespace {

std::vector<int32_t> prompt(uint32_t n_tokens, uint32_t seed, uint32_t n_vocab) {
  std::vector<int32_t> tokens(n_tokens);
  for (uint32_t i = 0; i < n_tokens; ++i)
    tokens[i] = static_cast<int32_t>((seed * 7919U + i * 31U + 1) % n_vocab);
  return tokens;
}

Usage serve(Engine &engine, std::vector<int32_t> tokens) {
  auto submitted = engine.submit({.prompt = std::move(tokens), .n_predict = 0});
  if (const auto *error = std::get_if<Error>(&submitted)) throw std::runtime_error(error->message);
  auto handle = std::get<RequestHandle>(std::move(submitted));
  while (auto event = handle.next()) {
    const auto *end = std::get_if<RequestEnd>(&*event);
    if (end == nullptr) continue;
    if (end->error) throw std::runtime_error(end->error->message);
    return end->usage;
  }
  throw std::runtime_error("no end");
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// An engine, and how long its prompts took.
struct Contender {
  std::unique_ptr<Engine> engine;
  std::vector<double> again_ms;  ///< of the prompt that was there before
  std::vector<double> first_ms;  ///< of the one that drove it out
  uint32_t n_cached = 0;
};

void measure(const std::shared_ptr<const Model> &model, uint32_t n_tokens, uint32_t n_threads,
             uint32_t n_rounds) {
  constexpr uint32_t k_block = 32;
  constexpr size_t k_plenty = size_t{4} << 30U;
  const auto make = [&](uint32_t n_prompts, size_t cache_memory_bytes) {
    return Contender{.engine = std::make_unique<Engine>(
                         model, EngineOptions{.n_ctx = n_prompts * (n_tokens + k_block),
                                              .n_seqs_max = 1,
                                              .n_threads = n_threads,
                                              .cache_memory_bytes = cache_memory_bytes})};
  };
  Contender computed = make(1, 0);
  Contender restored = make(1, k_plenty);
  Contender kept = make(n_rounds + 2, 0);
  const auto old = prompt(n_tokens, 0, model->n_vocab());
  for (uint32_t round = 0; round <= n_rounds; ++round) {
    for (Contender *one : {&computed, &restored, &kept}) {
      const Usage again = serve(*one->engine, old);
      const Usage first = serve(*one->engine, prompt(n_tokens, round + 1, model->n_vocab()));
      if (round == 0) continue;  // the first time nothing is there
      one->again_ms.push_back(again.prompt_ms);
      one->first_ms.push_back(first.prompt_ms);
      one->n_cached = again.n_tokens_cached;
    }
  }
  fmt::print("{:6} {:10.2f} {:10.2f} {:10.2f} {:10.1f} {:12.3f} {:8}\n", n_tokens,
             median(computed.again_ms), median(restored.again_ms), median(kept.again_ms),
             median(computed.again_ms) / median(restored.again_ms),
             median(restored.first_ms) / median(computed.first_ms), restored.n_cached);
  std::fflush(stdout);
}

}  // namespace
}  // namespace patchbay

int main(int argc, char **argv) {
  if (argc < 2) {
    std::fputs("host_tier_bench MODEL [THREADS] [ROUNDS]\n", stderr);
    return 2;
  }
  const auto number = [&](int i, uint32_t otherwise) {
    return argc > i ? static_cast<uint32_t>(std::max(1, std::atoi(argv[i]))) : otherwise;
  };
  const auto model = patchbay::Model::load(argv[1]);
  fmt::print("{:>6} {:>10} {:>10} {:>10} {:>10} {:>12} {:>8}\n", "tokens", "computed", "restored",
             "kept, ms", "gain", "first, ratio", "cached");
  for (const uint32_t n_tokens : {64U, 128U, 256U, 512U, 1024U, 2048U}) {
    if (n_tokens < model->n_ctx_train())
      patchbay::measure(model, n_tokens, number(2, 2), number(3, 7));
  }
  return 0;
}
