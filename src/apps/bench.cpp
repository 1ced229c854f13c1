#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "apps/commands.h"
#include "apps/model_files.h"
#include "engine/compute_options.h"
#include "engine/executor.h"
#include "lora/random_adapter.h"

namespace patchbay {
namespace {

using Clock = std::chrono::steady_clock;

struct Speeds {
  double prefill_tokens_per_s = 0;
  double decode_tokens_per_s = 0;
};

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void run_or_throw(Executor &executor, const StepPlan &plan) {
  const auto logits = executor.run(plan);
  if (!logits) throw std::runtime_error(logits.error().message);
}

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

/// Stream i wears adapter i modulo their number; without adapters, none.
std::vector<AdapterSet> deal(const std::vector<WornAdapter> &adapters, const Executor &executor,
                             uint32_t n_streams) {
  std::vector<AdapterSet> sets(n_streams);
  for (uint32_t i = 0; i < n_streams && !adapters.empty(); ++i) {
    const auto &[adapter, strength] = adapters[i % adapters.size()];
    sets[i] =
        executor.canonical(std::array{Worn{executor.find_adapter(adapter->digest), strength}});
  }
  return sets;
}

class Bench {
 public:
  Bench(const BenchArguments &arguments, Executor &executor, std::vector<AdapterSet> sets)
      : arguments_(arguments), executor_(executor), sets_(std::move(sets)) {}

  /// Prefills one sequence in chunks, then decodes all streams from a short common start.
  Speeds measure() {
    Speeds speeds;
    speeds.prefill_tokens_per_s = prefill();
    speeds.decode_tokens_per_s = decode();
    return speeds;
  }

 private:
  [[nodiscard]] StepRow row(int32_t seq_id, uint32_t pos, bool wants_logits) const {
    const uint32_t n_vocab = executor_.model().hparams().n_vocab;
    const auto token = static_cast<int32_t>(
        (pos * 7919U + static_cast<uint32_t>(seq_id) * 104729U + 1U) % n_vocab);
    return {.token = token,
            .place = {seq_id, static_cast<int32_t>(pos)},
            .i_set = static_cast<uint32_t>(seq_id),
            .wants_logits = wants_logits};
  }

  double prefill() {
    executor_.release(0);
    const uint32_t n_prompt = arguments_.n_prompt;
    const uint32_t n_ubatch = arguments_.model.session.n_ubatch;
    const auto start = Clock::now();
    for (uint32_t first = 0; first < n_prompt; first += n_ubatch) {
      StepPlan plan{.sets = sets_};
      for (uint32_t pos = first; pos < std::min(n_prompt, first + n_ubatch); ++pos) {
        plan.rows.push_back(row(0, pos, pos + 1 == n_prompt));
      }
      run_or_throw(executor_, plan);
    }
    const double seconds = seconds_since(start);
    executor_.release(0);
    return n_prompt / seconds;
  }

  double decode() {
    const auto n_streams = static_cast<int32_t>(arguments_.n_streams);
    for (int32_t seq_id = 0; seq_id < n_streams; ++seq_id) executor_.release(seq_id);
    const auto start = Clock::now();
    for (uint32_t pos = 0; pos < arguments_.n_gen; ++pos) {
      StepPlan plan{.sets = sets_};
      for (int32_t seq_id = 0; seq_id < n_streams; ++seq_id)
        plan.rows.push_back(row(seq_id, pos, true));
      run_or_throw(executor_, plan);
    }
    const double seconds = seconds_since(start);
    for (int32_t seq_id = 0; seq_id < n_streams; ++seq_id) executor_.release(seq_id);
    return arguments_.n_gen * arguments_.n_streams / seconds;
  }

  const BenchArguments &arguments_;
  Executor &executor_;
  std::vector<AdapterSet> sets_;
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

Speeds median_of(const std::vector<Speeds> &runs) {
  std::vector<double> prefill;
  std::vector<double> decode;
  for (const auto &speeds : runs) {
    prefill.push_back(speeds.prefill_tokens_per_s);
    decode.push_back(speeds.decode_tokens_per_s);
  }
  return {median(prefill), median(decode)};
}

void print(const BenchArguments &arguments, uint32_t n_threads, size_t n_adapters,
           size_t pool_bytes, const Speeds &speeds) {
  if (arguments.json) {
    const nlohmann::ordered_json json{{"n_prompt", arguments.n_prompt},
                                      {"n_gen", arguments.n_gen},
                                      {"n_streams", arguments.n_streams},
                                      {"n_adapters", n_adapters},
                                      {"n_threads", n_threads},
                                      {"n_repeat", arguments.n_repeat},
                                      {"adapter_bytes", pool_bytes},
                                      {"prefill_tokens_per_s", speeds.prefill_tokens_per_s},
                                      {"decode_tokens_per_s", speeds.decode_tokens_per_s}};
    fmt::print("{}\n", json.dump());
    return;
  }
  fmt::print("prefill {:>5} tokens              {:>8.1f} tokens/s\n", arguments.n_prompt,
             speeds.prefill_tokens_per_s);
  fmt::print("decode  {:>5} tokens x {:>3} streams {:>8.1f} tokens/s\n", arguments.n_gen,
             arguments.n_streams, speeds.decode_tokens_per_s);
  fmt::print("{} thread(s), {} adapter(s), {:.1f} MB of adapters, median of {}\n", n_threads,
             n_adapters, static_cast<double>(pool_bytes) / 1e6, arguments.n_repeat);
}

}  // namespace

int bench(const BenchArguments &arguments) {
  const auto model = open_model(arguments.model);
  const auto worn = bench_adapters(arguments, *model);
  const SessionOptions &session = arguments.model.session;
  const uint32_t n_threads = compute_threads(session.n_threads);
  Executor executor(model->loaded(),
                    {.n_cells = std::max(arguments.n_prompt, arguments.n_gen * arguments.n_streams),
                     .cache_type = to_ggml(session.cache_type),
                     .n_threads = n_threads,
                     .lora_form = session.lora_form});
  for (const auto &[adapter, strength] : worn) executor.add_adapter(adapter);

  Bench measured(arguments, executor, deal(worn, executor, arguments.n_streams));
  (void)measured.measure();  // warms caches and pages
  std::vector<Speeds> runs;
  for (uint32_t i = 0; i < arguments.n_repeat; ++i) runs.push_back(measured.measure());
  print(arguments, n_threads, worn.size(), executor.pool_bytes(), median_of(runs));
  return 0;
}

}  // namespace patchbay
