#include "engine/service_counters.h"
#include "server/metrics.h"
#include "server/process_stats.h"

namespace patchbay {
namespace {

using Type = MetricsText::Type;
using Labels = MetricsText::Labels;

double number(auto value) { return static_cast<double>(value); }

void one(MetricsText &text, std::string_view name, Type type, std::string_view help, double value) {
  text.family(name, type, help);
  text.sample(value);
}

/// Every name of the `adapter` label: the base and those of the registered ones that were used.
std::vector<std::pair<std::string, std::shared_ptr<const Traffic>>> traffic_of(
    const Service &service, const MetricsView &view) {
  std::vector<std::string> names{"base"};
  for (const auto &entry : view.adapters) {
    if (entry.name != names.front()) names.push_back(entry.name);
  }
  std::vector<std::pair<std::string, std::shared_ptr<const Traffic>>> list;
  for (auto &name : names) {
    if (auto traffic = service.traffic.find(name)) list.emplace_back(name, std::move(traffic));
  }
  return list;
}

void add_traffic(MetricsText &text, const Service &service, const MetricsView &view) {
  const auto list = traffic_of(service, view);
  text.family(
      "patchbay_requests_total", Type::counter,
      "Requests that have ended, by outcome; one that wears several adapters counts for each.");
  for (const auto &[name, traffic] : list) {
    for (size_t i = 0; i < k_n_outcomes; ++i) {
      text.sample({{"adapter", name}, {"outcome", to_string(static_cast<Outcome>(i))}},
                  number(traffic->requests[i].load()));
    }
  }
  const auto counter = [&](std::string_view family, std::string_view help,
                           std::atomic<uint64_t> Traffic::*value) {
    text.family(family, Type::counter, help);
    for (const auto &[name, traffic] : list)
      text.sample({{"adapter", name}}, number((*traffic.*value).load()));
  };
  counter("patchbay_prompt_tokens_total", "Tokens of prompts.", &Traffic::n_tokens_prompt);
  counter("patchbay_cached_tokens_total", "Of these, not computed, as the prefix cache held them.",
          &Traffic::n_tokens_cached);
  counter("patchbay_output_tokens_total", "Tokens drawn.", &Traffic::n_tokens_out);
  const auto histogram = [&](std::string_view family, std::string_view help,
                             Histogram Traffic::*value) {
    text.family(family, Type::histogram, help);
    for (const auto &[name, traffic] : list)
      text.histogram({{"adapter", name}}, (*traffic.*value).counts());
  };
  histogram("patchbay_queue_seconds", "Waited until admission.", &Traffic::queue);
  histogram("patchbay_time_to_first_token_seconds", "From a request's arrival to its first token.",
            &Traffic::first_token);
  histogram("patchbay_inter_token_seconds", "Between the tokens of an answer.",
            &Traffic::between_tokens);
}

void add_adapters(MetricsText &text, const Service &service, const MetricsView &view) {
  const auto each = [&](std::string_view family, std::string_view help, const auto &value) {
    text.family(family, Type::gauge, help);
    for (const auto &entry : view.adapters)
      text.sample({{"adapter", entry.name}}, number(value(entry)));
  };
  text.family("patchbay_adapter_resident", Type::gauge,
              "Whether an adapter is in the host's memory, and in the memory that steps read.");
  for (const auto &entry : view.adapters) {
    const bool is_resident = view.stats.residency.resident.contains(stats_key_of(*entry.adapter));
    text.sample({{"adapter", entry.name}, {"tier", "host"}}, 1);
    text.sample({{"adapter", entry.name}, {"tier", "device"}}, is_resident ? 1 : 0);
  }
  each("patchbay_adapter_rank", "The largest rank among an adapter's pairs.",
       [](const auto &entry) { return max_rank(*entry.adapter); });
  each("patchbay_adapter_size_bytes", "Of all factors of an adapter.",
       [](const auto &entry) { return entry.adapter->size_bytes; });
  text.family(
      "patchbay_adapter_load_seconds", Type::summary,
      "Loading adapters: from files into the host's memory, from there to where steps read them.");
  const HistogramCounts host = service.load_seconds.counts();
  uint64_t n_host = 0;
  for (const uint64_t count : host.counts) n_host += count;
  text.sum({{"tier", "host"}}, host.sum, number(n_host));
  const ResidencyStats &residency = view.stats.residency;
  text.sum({{"tier", "device"}}, residency.load_ms / 1e3, number(residency.n_loaded));
  one(text, "patchbay_adapter_evictions_total", Type::counter,
      "Times that an adapter left the memory that steps read.", number(residency.n_evicted));
  one(text, "patchbay_adapters_resident", Type::gauge, "Adapters in the memory that steps read.",
      view.stats.n_adapters);
  one(text, "patchbay_adapter_memory_bytes", Type::gauge, "Their size.",
      number(view.stats.adapter_bytes));
}

void add_engine(MetricsText &text, const EngineStats &stats) {
  one(text, "patchbay_requests_waiting", Type::gauge, "Requests, and answers without memory.",
      stats.n_queued);
  one(text, "patchbay_answers_running", Type::gauge, "Answers in the making.", stats.n_running);
  one(text, "patchbay_preemptions_total", Type::counter,
      "Times that an answer had to give its memory up.", number(stats.n_preemptions));
  one(text, "patchbay_computed_tokens_total", Type::counter,
      "Tokens of prompts and answers that went through the model.",
      number(stats.n_tokens_computed));
  one(text, "patchbay_kv_tokens", Type::gauge, "Tokens that the KV cache can hold.",
      stats.n_kv_tokens);
  one(text, "patchbay_kv_used_tokens", Type::gauge, "Of these, taken, in whole blocks.",
      stats.n_kv_tokens_used);
  one(text, "patchbay_prefix_hit_tokens_total", Type::counter,
      "Tokens that the prefix cache saved from being computed.",
      number(stats.prefix_cache.n_tokens_hit));
  one(text, "patchbay_prefix_evicted_blocks_total", Type::counter,
      "Blocks of the prefix cache whose memory others needed.",
      number(stats.prefix_cache.n_blocks_evicted));
  one(text, "patchbay_prefix_blocks", Type::gauge, "Blocks that the prefix cache knows.",
      stats.prefix_cache.n_blocks_known);
  one(text, "patchbay_prefix_idle_tokens", Type::gauge, "Tokens that only the prefix cache holds.",
      stats.prefix_cache.n_tokens_idle);
  text.family("patchbay_host_cache_blocks_total", Type::counter,
              "Blocks moved between the KV cache and the memory beside it.");
  text.sample({{"what", "saved"}}, number(stats.host_tier.n_blocks_saved));
  text.sample({{"what", "restored"}}, number(stats.host_tier.n_blocks_restored));
  text.sample({{"what", "dropped"}}, number(stats.host_tier.n_blocks_dropped));
  one(text, "patchbay_host_cache_bytes", Type::gauge, "In the memory beside the KV cache.",
      number(stats.host_tier.size_bytes));
}

void add_steps(MetricsText &text, const EngineStats &stats) {
  const StepTimes &times = stats.step_times;
  HistogramCounts steps{.sum = (times.plan_ms + times.compute_ms + times.sample_ms) / 1e3};
  double bound_s = StepTimes::k_first_class_ms / 1e3;
  for (const uint64_t count : times.n_steps_by_length) {
    steps.counts.push_back(count);
    steps.bounds.push_back(bound_s);
    bound_s *= 2;
  }
  steps.bounds.pop_back();  // the last class has no upper one
  text.family("patchbay_step_seconds", Type::histogram, "Steps of computation, without admission.");
  text.histogram({}, steps);
  text.family("patchbay_step_part_seconds_total", Type::counter, "Where the time of steps went.");
  text.sample({{"part", "admit"}}, times.admit_ms / 1e3);
  text.sample({{"part", "plan"}}, times.plan_ms / 1e3);
  text.sample({{"part", "compute"}}, times.compute_ms / 1e3);
  text.sample({{"part", "sample"}}, times.sample_ms / 1e3);
  const StepSets &sets = stats.step_sets;
  text.family("patchbay_step_adapter_sets", Type::histogram,
              "Different sets of adapters that one step served; the base alone is none.");
  text.histogram({}, {.bounds = {StepSets::k_bounds.begin(), StepSets::k_bounds.end()},
                      .counts = {sets.n_steps.begin(), sets.n_steps.end()},
                      .sum = number(sets.n_sets)});
  one(text, "patchbay_graphs_built_total", Type::counter,
      "Steps that could not run the graph of an earlier one.", number(stats.n_graphs_built));
}

void add_http(MetricsText &text, const Service &service) {
  text.family("patchbay_http_requests_total", Type::counter, "Answers to HTTP requests.");
  for (const auto &[key, n] : service.http_counts.list()) {
    text.sample(
        {{"method", key.method}, {"route", key.route}, {"code", std::to_string(key.status)}},
        number(n));
  }
}

/// The names that Prometheus' client libraries use.
void add_process(MetricsText &text) {
  const ProcessStats process = read_process_stats();
  one(text, "process_cpu_seconds_total", Type::counter, "User and system time.", process.cpu_s);
  one(text, "process_resident_memory_bytes", Type::gauge, "Memory in use, mapped files included.",
      number(process.rss_bytes));
  one(text, "process_virtual_memory_bytes", Type::gauge, "Address space.",
      number(process.virtual_bytes));
  one(text, "process_open_fds", Type::gauge, "Open file descriptors.", process.n_open_fds);
  one(text, "process_max_fds", Type::gauge, "Descriptors that may be open.",
      number(process.n_max_fds));
  one(text, "process_start_time_seconds", Type::gauge, "Unix time of the start.",
      process.started_at);
}

}  // namespace

void add_own_metrics(MetricsText &text, const Service &service, const MetricsView &view) {
  add_traffic(text, service, view);
  add_adapters(text, service, view);
  add_engine(text, view.stats);
  add_steps(text, view.stats);
  add_http(text, service);
  add_process(text);
}

}  // namespace patchbay
