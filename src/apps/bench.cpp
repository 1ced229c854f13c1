#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <numeric>

#include "apps/commands.h"
#include "apps/model_files.h"
#include "engine/compute_options.h"
#include "engine/loaded_model.h"
#include "lora/random_adapter.h"

namespace patchbay {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

/// The times of some repetitions, in milliseconds.
struct Times {
  std::vector<double> prefill_ms;  ///< of the whole prompt
  std::vector<double> step_ms;     ///< of each decode step of all streams
};

double quantile(std::vector<double> values, double part) {
  std::ranges::sort(values);
  const double place = part * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, values.size() - 1);
  return std::lerp(values[below], values[above], place - static_cast<double>(below));
}

double median(const std::vector<double> &values) { return quantile(values, 0.5); }

/// The adapters of --lora and the random ones; on linear and expert weights and in F16, as
/// fine-tunes have them.
std::vector<WornAdapter> bench_adapters(const BenchArguments &arguments, const Model &model) {
  std::vector<WornAdapter> adapters = open_adapters(model, arguments.model.loras);
  std::vector<AdaptableUse> uses = model.loaded()->info.uses;
  std::erase_if(uses, [](const AdaptableUse &use) {
    return use.kind == UseKind::embed || use.name == "output.weight";
  });
  constexpr float k_size = 0.01F;
  for (uint32_t i = 0; i < arguments.n_adapters; ++i) {
    adapters.push_back({make_random_adapter(uses, arguments.n_rank, k_size, i, GGML_TYPE_F16), 1});
  }
  return adapters;
}

class Bench {
 public:
  Bench(const BenchArguments &arguments, const Model &model, Engine &engine)
      : arguments_(arguments), n_vocab_(model.n_vocab()), engine_(engine) {}

  /// One prefill, then all streams decoding side by side; `adapters` empty: the base.
  void measure(const std::vector<WornAdapter> &adapters, Times &times) {
    prefill(adapters, times);
    decode(adapters, times);
  }

 private:
  RequestHandle submit(Request request) {
    request.sampling.temperature = 0;
    request.ignore_eos = true;
    auto submitted = engine_.submit(std::move(request));
    if (const auto *error = std::get_if<Error>(&submitted))
      throw std::runtime_error(error->message);
    return std::get<RequestHandle>(std::move(submitted));
  }

  /// Tokens that differ, so that routers and look-ups meet more than one row.
  [[nodiscard]] std::vector<int32_t> prompt(uint32_t n_tokens, uint32_t seed) const {
    std::vector<int32_t> tokens(n_tokens);
    for (uint32_t i = 0; i < n_tokens; ++i)
      tokens[i] = static_cast<int32_t>((seed * 7919U + i * 31U + 1) % n_vocab_);
    return tokens;
  }

  /// As many adapters as there are streams share the prompt, each wearing a part of it.
  [[nodiscard]] std::vector<RequestSpan> prompt_spans(
      const std::vector<WornAdapter> &adapters) const {
    const auto n_spans = static_cast<int32_t>(
        std::min({adapters.size(), size_t{arguments_.n_streams}, size_t{arguments_.n_prompt}}));
    std::vector<RequestSpan> spans;
    for (int32_t i = 0; i < n_spans; ++i) {
      spans.push_back({.first = i * static_cast<int32_t>(arguments_.n_prompt) / n_spans,
                       .adapters = {adapters[static_cast<size_t>(i)]}});
    }
    return spans;
  }

  void prefill(const std::vector<WornAdapter> &adapters, Times &times) {
    RequestHandle handle = submit({.prompt = prompt(arguments_.n_prompt, 0),
                                   .spans = prompt_spans(adapters),
                                   .n_predict = 0});
    while (auto event = handle.next()) {
      if (const auto *end = std::get_if<RequestEnd>(&*event)) {
        if (end->error) throw std::runtime_error(end->error->message);
        times.prefill_ms.push_back(end->usage.prompt_ms);
      }
    }
  }

  void decode(const std::vector<WornAdapter> &adapters, Times &times) {
    std::vector<RequestHandle> handles;
    for (uint32_t i = 0; i < arguments_.n_streams; ++i) {
      Request request{.prompt = prompt(1, i), .n_predict = static_cast<int32_t>(arguments_.n_gen)};
      if (!adapters.empty())
        request.spans = {{.first = 0, .adapters = {adapters[i % adapters.size()]}}};
      handles.push_back(submit(std::move(request)));
    }
    std::vector<double> rounds;
    for (uint32_t round = 0; round < arguments_.n_gen; ++round) {
      const auto start = Clock::now();
      for (auto &handle : handles) take_token(handle);
      rounds.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
    }
    // Not all streams enter in the same step, so the first rounds and the last hold fewer of them.
    constexpr ptrdiff_t k_edge = 3;
    const ptrdiff_t n_edge = std::ssize(rounds) > 4 * k_edge ? k_edge : 0;
    times.step_ms.insert(times.step_ms.end(), rounds.begin() + n_edge, rounds.end() - n_edge);
  }

  static void take_token(RequestHandle &handle) {
    while (auto event = handle.next()) {
      if (std::holds_alternative<TokenEvent>(*event)) return;
      if (std::holds_alternative<ChoiceEnd>(*event)) break;
      if (const auto *end = std::get_if<RequestEnd>(&*event); end != nullptr && end->error)
        throw std::runtime_error(end->error->message);
    }
    throw std::runtime_error("a stream has ended before its last token");
  }

  const BenchArguments &arguments_;
  uint32_t n_vocab_;
  Engine &engine_;
};

/// What is measured: the base, the adapters, or both in turns.
struct Report {
  Times adapted;  ///< of the base where there are no adapters
  std::optional<Times> base;
  std::vector<double> prefill_ratios;  ///< adapted / base, of each repetition
  std::vector<double> step_ratios;
  std::vector<double> added_ms;  ///< adapted - base, per step, of each repetition
};

Report measure(const BenchArguments &arguments, Bench &bench,
               const std::vector<WornAdapter> &adapters) {
  Report report;
  if (arguments.against_base) report.base.emplace();
  Times warm_up;
  bench.measure({}, warm_up);
  bench.measure(adapters, warm_up);
  for (uint32_t i = 0; i < arguments.n_repeat; ++i) {
    Times adapted;
    bench.measure(adapters, adapted);
    const auto append = [](Times &all, const Times &some) {
      all.prefill_ms.insert(all.prefill_ms.end(), some.prefill_ms.begin(), some.prefill_ms.end());
      all.step_ms.insert(all.step_ms.end(), some.step_ms.begin(), some.step_ms.end());
    };
    append(report.adapted, adapted);
    if (!report.base) continue;
    Times base;
    bench.measure({}, base);
    append(*report.base, base);
    report.prefill_ratios.push_back(median(adapted.prefill_ms) / median(base.prefill_ms));
    report.step_ratios.push_back(median(adapted.step_ms) / median(base.step_ms));
    report.added_ms.push_back(median(adapted.step_ms) - median(base.step_ms));
  }
  return report;
}

Json spread(const std::vector<double> &values) {
  return {
      {"median", median(values)}, {"p10", quantile(values, 0.1)}, {"p90", quantile(values, 0.9)}};
}

Json to_json(const BenchArguments &arguments, const Times &times) {
  return {{"prefill_tokens_per_s", 1000.0 * arguments.n_prompt / median(times.prefill_ms)},
          {"decode_tokens_per_s", 1000.0 * arguments.n_streams / median(times.step_ms)},
          {"prefill_ms", spread(times.prefill_ms)},
          {"step_ms", spread(times.step_ms)}};
}

void print_json(const BenchArguments &arguments, uint32_t n_threads, size_t n_adapters,
                size_t adapter_bytes, const Report &report) {
  Json json{{"n_prompt", arguments.n_prompt},   {"n_gen", arguments.n_gen},
            {"n_streams", arguments.n_streams}, {"n_adapters", n_adapters},
            {"n_threads", n_threads},           {"n_repeat", arguments.n_repeat},
            {"adapter_bytes", adapter_bytes}};
  json.update(to_json(arguments, report.adapted));
  if (report.base) {
    json["base"] = to_json(arguments, *report.base);
    json["prefill_ratio"] = spread(report.prefill_ratios);
    json["step_ratio"] = spread(report.step_ratios);
    json["added_step_ms"] = spread(report.added_ms);
  }
  fmt::print("{}\n", json.dump());
}

void print_line(const BenchArguments &arguments, const char *who, const Times &times) {
  fmt::print(
      "{:8} prefill {} tokens: {:.1f} tokens/s, decode {} x {}: {:.1f} tokens/s, "
      "{:.2f} ms per step ({:.2f} to {:.2f})\n",
      who, arguments.n_prompt, 1000.0 * arguments.n_prompt / median(times.prefill_ms),
      arguments.n_gen, arguments.n_streams, 1000.0 * arguments.n_streams / median(times.step_ms),
      median(times.step_ms), quantile(times.step_ms, 0.1), quantile(times.step_ms, 0.9));
}

void print_text(const BenchArguments &arguments, uint32_t n_threads, size_t n_adapters,
                size_t adapter_bytes, const Report &report) {
  print_line(arguments, n_adapters == 0 ? "base" : "adapted", report.adapted);
  if (report.base) {
    print_line(arguments, "base", *report.base);
    const double added_ms = median(report.added_ms);
    fmt::print(
        "adapted / base: prefill {:.3f}, step {:.3f} ({:.3f} to {:.3f}), {:.2f} ms per step more, "
        "{:.2f} per stream\n",
        median(report.prefill_ratios), median(report.step_ratios),
        quantile(report.step_ratios, 0.1), quantile(report.step_ratios, 0.9), added_ms,
        added_ms / arguments.n_streams);
  }
  fmt::print("{} thread(s), {} adapter(s), {:.1f} MB of adapters, medians of {}\n", n_threads,
             n_adapters, static_cast<double>(adapter_bytes) / 1e6, arguments.n_repeat);
}

}  // namespace

int bench(const BenchArguments &arguments) {
  const auto model = open_model(arguments.model);
  const auto adapters = bench_adapters(arguments, *model);
  if (arguments.against_base && adapters.empty())
    throw UsageError("--against-base compares adapters with the base: give some");
  if (std::max(arguments.n_gen, arguments.n_prompt) >= model->n_ctx_train()) {
    throw UsageError(fmt::format("the model's context holds {} tokens: give -p and -n less",
                                 model->n_ctx_train()));
  }
  EngineOptions options = arguments.model.engine;
  // A block more for each stream, so that none has to give its memory up for another.
  constexpr uint32_t k_block_tokens = 32;
  options.n_ctx =
      std::max(arguments.n_prompt, (arguments.n_gen + 1 + k_block_tokens) * arguments.n_streams);
  options.n_seqs_max = arguments.n_streams;
  options.n_queue_max = arguments.n_streams;
  options.prefix_cache = false;  // every repetition has the same prompt
  options.n_ubatch = std::max(options.n_ubatch, arguments.n_streams);
  Engine engine(model, options);
  Bench measured(arguments, *model, engine);
  const Report report = measure(arguments, measured, adapters);
  const auto print = arguments.json ? print_json : print_text;
  print(arguments, compute_threads(options.n_threads), adapters.size(),
        engine.stats().adapter_bytes, report);
  return 0;
}

}  // namespace patchbay
