// prefix_bench MODEL [N_PROMPT] [ROUNDS]: what the prefix cache saves, and what it costs.
//
// Prints JSON, one object a line, times as medians where nothing else is said:
//   alternating  time to the first token of a prompt of N_PROMPT tokens that two resident adapters
//                wear in turns, the first time (cold) and later (warm)
//   alora        the same of an aLoRA's turn after a base conversation of N_PROMPT tokens, and of a
//                second aLoRA's, beside a plain adapter's first turn over the same tokens
//   shared       KV tokens that 64 sequences with one beginning of 1000 tokens hold at once
//   cost         microseconds that a prefill step of 256 tokens and a decode step of one sequence
//                spend on hashing, looking up and keeping (the latter a mean, since only every 32nd
//                step keeps a block), and the length of these steps
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "engine/loaded_model.h"
#include "kv/kv_tables.h"
#include "lora/random_adapter.h"
#include "patchbay/patchbay.hpp"

namespace patchbay {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

std::vector<int32_t> tokens(uint32_t n, uint32_t seed) {
  std::vector<int32_t> drawn(n);
  for (uint32_t i = 0; i < n; ++i)
    drawn[i] = static_cast<int32_t>((7919U * i + 104729U * seed + 1) % 40000U + 100U);
  return drawn;
}

/// Random factors on all linear weights, in F16.
std::shared_ptr<const Adapter> adapter(const Model &model, uint64_t seed,
                                       std::vector<int32_t> invocation = {}) {
  std::vector<AdaptableUse> uses = model.loaded()->info.uses;
  std::erase_if(uses, [](const AdaptableUse &use) {
    return use.kind == UseKind::embed || use.name == "output.weight";
  });
  auto made = std::make_shared<Adapter>(*make_random_adapter(uses, 16, 0.01F, seed, GGML_TYPE_F16));
  made->invocation_tokens = std::move(invocation);
  return made;
}

class Measurement {
 public:
  Measurement(std::shared_ptr<const Model> model, uint32_t n_prompt, int n_rounds)
      : model_(std::move(model)), n_prompt_(n_prompt), n_rounds_(n_rounds) {}

  [[nodiscard]] Json alternating() const {
    const auto engine = make_engine(4 * n_prompt_);
    const std::vector<int32_t> prompt = tokens(n_prompt_, 0);
    const std::vector<WornAdapter> both{{adapter(*model_, 1), 1}, {adapter(*model_, 2), 1}};
    for (const auto &worn : both) make_resident(*engine, {1}, worn);
    std::vector<double> cold;
    std::vector<double> warm;
    for (int round = 0; round <= n_rounds_; ++round) {
      for (const auto &worn : both)
        (round == 0 ? cold : warm).push_back(first_token_ms(*engine, prompt, {worn}));
    }
    return {{"name", "alternating"},
            {"n_prompt", n_prompt_},
            {"cold_ms", median(cold)},
            {"warm_ms", median(warm)}};
  }

  /// The base reads the conversation once, as it did when it was held; every round invokes anew.
  [[nodiscard]] Json alora() const {
    const std::vector<int32_t> conversation = tokens(n_prompt_, 0);
    std::vector<double> first;
    std::vector<double> second;
    std::vector<double> plain;
    for (int round = 0; round < n_rounds_; ++round) {
      const auto engine = make_engine(4 * n_prompt_);
      (void)first_token_ms(*engine, conversation, {});
      first.push_back(turn_ms(*engine, conversation, {11, 12, 13}, 1));
      second.push_back(turn_ms(*engine, conversation, {14, 15, 16}, 2));
      plain.push_back(turn_ms(*engine, conversation, {}, 3));
    }
    return {{"name", "alora"},
            {"n_prompt", n_prompt_},
            {"first_alora_ms", median(first)},
            {"second_alora_ms", median(second)},
            {"plain_ms", median(plain)}};
  }

  [[nodiscard]] Json shared() const {
    constexpr uint32_t k_n_seqs = 64;
    constexpr uint32_t k_n_shared = 1000;
    const auto engine = make_engine(8192);
    std::vector<RequestHandle> handles;
    for (uint32_t i = 0; i < k_n_seqs; ++i) {
      Request request{.prompt = tokens(k_n_shared, 0), .n_predict = 24};
      request.prompt.push_back(static_cast<int32_t>(1000 + i));
      handles.push_back(submit(*engine, std::move(request)));
    }
    // Each has a token, so all hold their memory at once.
    for (auto &handle : handles) {
      while (const auto event = handle.next()) {
        if (std::holds_alternative<TokenEvent>(*event)) break;
      }
    }
    const EngineStats stats = engine->stats();
    return {{"name", "shared"},
            {"n_seqs", stats.n_running},
            {"n_shared", k_n_shared},
            {"n_kv_tokens_used", stats.n_kv_tokens_used},
            {"n_tokens_computed", stats.n_tokens_computed}};
  }

  /// The bookkeeping alone, with tables as full as they get.
  [[nodiscard]] Json cost() const {
    const auto [prefill_ms, decode_ms] = step_ms();
    return {{"name", "cost"},
            {"prefill_us", prefill_us()},
            {"prefill_step_us", 1e3 * prefill_ms},
            {"decode_us", decode_us()},
            {"decode_step_us", 1e3 * decode_ms}};
  }

 private:
  static constexpr uint32_t k_ubatch = 256;
  static constexpr KvSizes k_sizes{.block_size = 32, .n_blocks = 2048};

  [[nodiscard]] std::unique_ptr<Engine> make_engine(uint32_t n_ctx) const {
    return std::make_unique<Engine>(model_, EngineOptions{.n_ctx = n_ctx, .n_ubatch = k_ubatch});
  }

  static RequestHandle submit(Engine &engine, Request request) {
    request.sampling.temperature = 0;
    request.ignore_eos = true;
    auto submitted = engine.submit(std::move(request));
    if (const auto *error = std::get_if<Error>(&submitted))
      throw std::runtime_error(error->message);
    return std::get<RequestHandle>(std::move(submitted));
  }

  /// From the call to the first token.
  static double first_token_ms(Engine &engine, const std::vector<int32_t> &prompt,
                               const std::vector<WornAdapter> &worn) {
    const auto start = Clock::now();
    RequestHandle handle =
        submit(engine, {.prompt = prompt, .spans = plan_spans(prompt, worn).spans, .n_predict = 1});
    double ms = 0;
    while (const auto event = handle.next()) {
      if (std::holds_alternative<TokenEvent>(*event)) ms = ms_since(start);
    }
    return ms;
  }

  /// As an adapter is in a server that knows it. `prompt` invokes it, and begins nothing else.
  static void make_resident(Engine &engine, const std::vector<int32_t> &prompt,
                            const WornAdapter &worn) {
    (void)first_token_ms(engine, prompt, {worn});
  }

  /// A turn of 16 tokens after the conversation; with an invocation at its beginning it is an
  /// aLoRA's.
  double turn_ms(Engine &engine, std::vector<int32_t> conversation,
                 const std::vector<int32_t> &invocation, uint32_t seed) const {
    const std::vector<int32_t> turn = tokens(16, seed);
    conversation.insert(conversation.end(), invocation.begin(), invocation.end());
    conversation.insert(conversation.end(), turn.begin(), turn.end());
    const WornAdapter worn{adapter(*model_, seed, invocation), 1};
    make_resident(engine, invocation.empty() ? std::vector<int32_t>{1} : invocation, worn);
    return first_token_ms(engine, conversation, {worn});
  }

  /// Length of a prefill step of k_ubatch tokens, and of a decode step of one sequence.
  [[nodiscard]] std::pair<double, double> step_ms() const {
    const auto engine = make_engine(2 * n_prompt_);
    std::vector<double> prefill;
    std::vector<double> decode;
    for (int round = 0; round < n_rounds_; ++round) {
      prefill.push_back(
          first_token_ms(*engine, tokens(k_ubatch, 100 + static_cast<uint32_t>(round)), {}));
      RequestHandle handle = submit(*engine, {.prompt = tokens(1, 1), .n_predict = 64});
      auto start = Clock::now();
      while (const auto event = handle.next()) {
        if (!std::holds_alternative<TokenEvent>(*event)) break;
        decode.push_back(ms_since(start));
        start = Clock::now();
      }
    }
    return {median(prefill), median(decode)};
  }

  static PrefixContent content(uint32_t n, uint32_t seed) {
    const std::vector<int32_t> drawn = tokens(n, seed);
    return PrefixContent(ContentView{.tokens = drawn, .worn = {}});
  }

  static double prefill_us() {
    KvTables tables(k_sizes, 0);
    std::vector<double> times;
    for (uint32_t i = 0; i < 1000; ++i) {
      const PrefixContent prompt = content(k_ubatch, i);
      const auto start = Clock::now();
      PrefixCache &prefixes = tables.prefixes();
      (void)prefixes.match("", prompt);
      prefixes.begin(0, "");
      prefixes.adopt(0, prompt);
      auto reservation = tables.reserve(
          std::vector<SeqExtent>{{.seq_id = 0, .n_tokens = k_ubatch, .content = prompt}});
      reservation.value().commit();
      times.push_back(1e3 * ms_since(start));
      tables.release(0);
    }
    return median(times);
  }

  static double decode_us() {
    KvTables tables(k_sizes, 0);
    tables.prefixes().begin(0, "");
    std::vector<double> times;
    for (uint32_t i = 0; i < 4096; ++i) {
      const auto start = Clock::now();
      auto reservation = tables.reserve(
          std::vector<SeqExtent>{{.seq_id = 0, .n_tokens = 1, .content = content(1, i)}});
      reservation.value().commit();
      times.push_back(1e3 * ms_since(start));
    }
    double sum = 0;
    for (const double time : times) sum += time;
    return sum / static_cast<double>(times.size());
  }

  std::shared_ptr<const Model> model_;
  uint32_t n_prompt_;
  int n_rounds_;
};

}  // namespace
}  // namespace patchbay

int main(int argc, char **argv) try {
  if (argc < 2 || argc > 4) {
    fmt::print(stderr, "usage: {} MODEL [N_PROMPT] [ROUNDS]\n", argv[0]);
    return 2;
  }
  const auto n_prompt = static_cast<uint32_t>(argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 2000);
  const int n_rounds = argc > 3 ? std::atoi(argv[3]) : 5;
  if (n_prompt < 1 || n_rounds < 1) throw std::invalid_argument("N_PROMPT and ROUNDS are counts");
  const patchbay::Measurement measurement(patchbay::Model::load(argv[1]), n_prompt, n_rounds);
  for (const auto &json :
       {measurement.alternating(), measurement.alora(), measurement.shared(), measurement.cost()})
    fmt::print("{}\n", json.dump());
  return 0;
} catch (const std::exception &error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
