#include <algorithm>

#include "engine/service_counters.h"
#include "server/metrics.h"

namespace patchbay {
namespace {

using Type = MetricsText::Type;

double number(auto value) { return static_cast<double>(value); }

void append_name(std::string &list, const std::string &name) {
  if (!list.empty()) list += ',';
  list += name;  // holds no comma, see check_adapter_name()
}

}  // namespace

LoraLists lora_lists(const MetricsView &view) {
  LoraLists lists;
  for (const auto &entry : view.adapters) {
    const std::string key = stats_key_of(*entry.adapter);
    if (view.stats.residency.resident.contains(key)) {
      append_name(lists.running, entry.name);
      continue;
    }
    const auto found = view.stats.adapters.find(key);
    if (found != view.stats.adapters.end() && found->second.n_queued > 0)
      append_name(lists.waiting, entry.name);
  }
  return lists;
}

void add_gateway_metrics(MetricsText &text, const Service &service, const MetricsView &view,
                         double changed_at) {
  const EngineStats &stats = view.stats;
  const auto gauge = [&](std::string_view name, std::string_view help, double value) {
    text.family(name, Type::gauge, help);
    text.sample(value);
  };
  gauge("vllm:num_requests_waiting", "Requests that wait.", stats.n_queued);
  gauge("vllm:num_requests_running", "Requests in the making.", stats.n_running);
  gauge("vllm:kv_cache_usage_perc", "Part of the KV cache that is taken; 1: all.",
        stats.n_kv_tokens == 0 ? 0 : number(stats.n_kv_tokens_used) / stats.n_kv_tokens);
  text.family("vllm:cache_config_info", Type::gauge, "Shape of the KV cache.");
  const uint32_t n_blocks =
      stats.n_block_tokens == 0 ? 0 : stats.n_kv_tokens / stats.n_block_tokens;
  text.sample({{"block_size", std::to_string(stats.n_block_tokens)},
               {"num_gpu_blocks", std::to_string(n_blocks)}},
              1);
  const uint32_t capacity = adapter_capacity(stats, view.adapters, service);
  const LoraLists lists = lora_lists(view);
  text.family("vllm:lora_requests_info", Type::gauge,
              "Adapters that are resident, and that are waited for; Unix time of the last change.");
  text.sample({{"max_lora", std::to_string(capacity)},
               {"running_lora_adapters", lists.running},
               {"waiting_lora_adapters", lists.waiting}},
              changed_at);
  text.family("vllm:lora_adapter_loaded", Type::gauge, "Where an adapter is; 1.");
  const auto is_resident = [&](const RegisteredAdapter &entry) {
    return stats.residency.resident.contains(stats_key_of(*entry.adapter));
  };
  for (const auto &entry : view.adapters) {
    for (const std::string level : {"cpu", "gpu"}) {
      if (level == "gpu" && !is_resident(entry)) continue;
      text.sample({{"adapter_name", entry.name},
                   {"level", level},
                   {"pinned", "false"},
                   {"rank", std::to_string(max_rank(*entry.adapter))}},
                  1);
    }
  }
  gauge("vllm:num_gpu_loaded_lora_adapters", "In the memory that steps read.",
        number(std::ranges::count_if(view.adapters, is_resident)));
  gauge("vllm:num_cpu_loaded_lora_adapters", "In the host's memory.", number(view.adapters.size()));
  gauge("vllm:max_gpu_lora_adapters", "That steps can read at a time.", capacity);
  text.family("vllm:lora_adapter_load_seconds", Type::histogram,
              "Loading an adapter from its files.");
  text.histogram({}, service.load_seconds.counts());
}

uint32_t adapter_capacity(const EngineStats &stats, const std::vector<RegisteredAdapter> &adapters,
                          const Service &service) {
  // Factors as in the file, and once more as steps read them.
  constexpr size_t k_copies = 2;
  size_t bytes_each = stats.n_adapters == 0 ? 0 : stats.adapter_bytes / stats.n_adapters;
  if (bytes_each == 0) {
    for (const auto &entry : adapters)
      bytes_each = std::max(bytes_each, k_copies * entry.adapter->size_bytes);
  }
  const uint32_t n_least = std::max(service.n_seqs_max, stats.n_adapters);
  if (bytes_each == 0) return n_least;
  constexpr size_t k_most = 1'000'000;
  const size_t n_fit = std::min(k_most, service.adapter_memory_bytes / bytes_each);
  return std::max(n_least, static_cast<uint32_t>(n_fit));
}

}  // namespace patchbay
