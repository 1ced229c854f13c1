#include "server/metrics.h"

namespace patchbay {
namespace {

using Type = MetricsText::Type;

double number(auto value) { return static_cast<double>(value); }

double per_second(double n, double seconds) { return seconds > 0 ? n / seconds : 0; }

}  // namespace

void add_llama_metrics(MetricsText &text, const Service &service, const MetricsView &view) {
  const TrafficCounters::Totals &totals = service.traffic.totals();
  const EngineStats &stats = view.stats;
  const auto add = [&](std::string_view name, Type type, std::string_view help, double value) {
    text.family(name, type, help);
    text.sample(value);
  };
  const double n_prompt = number(totals.n_tokens_prompt_computed.load());
  const double n_out = number(totals.n_tokens_out.load());
  add("llamacpp:prompt_tokens_total", Type::counter, "Prompt tokens computed.", n_prompt);
  add("llamacpp:prompt_seconds_total", Type::counter, "Time of prompts.", totals.prompt_s);
  add("llamacpp:tokens_predicted_total", Type::counter, "Tokens drawn.", n_out);
  add("llamacpp:tokens_predicted_seconds_total", Type::counter, "Time of answers.",
      totals.decode_s);
  add("llamacpp:n_decode_total", Type::counter, "Steps computed.", number(stats.n_steps));
  add("llamacpp:prompt_tokens_cached_total", Type::counter, "Prompt tokens not computed again.",
      number(totals.n_tokens_cached.load()));
  add("llamacpp:n_tokens_max", Type::counter, "Tokens of the longest prompt with its answer.",
      number(totals.n_tokens_longest.load()));
  add("llamacpp:n_busy_slots_per_decode", Type::gauge, "Answers in the making per step.",
      stats.n_steps == 0 ? 0 : number(stats.n_answers_in_steps) / number(stats.n_steps));
  add("llamacpp:prompt_tokens_seconds", Type::gauge, "Prompt tokens per second of a request.",
      per_second(n_prompt, totals.prompt_s));
  add("llamacpp:predicted_tokens_seconds", Type::gauge, "Tokens per second of an answer.",
      per_second(n_out, totals.decode_s));
  add("llamacpp:kv_cache_usage_ratio", Type::gauge, "Part of the KV cache that is taken.",
      stats.n_kv_tokens == 0 ? 0 : number(stats.n_kv_tokens_used) / stats.n_kv_tokens);
  add("llamacpp:kv_cache_tokens", Type::gauge, "Tokens in the KV cache.", stats.n_kv_tokens_used);
  add("llamacpp:requests_processing", Type::gauge, "Requests in the making.", stats.n_running);
  add("llamacpp:requests_deferred", Type::gauge, "Requests that wait.", stats.n_queued);
}

}  // namespace patchbay
