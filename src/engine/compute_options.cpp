#include "engine/compute_options.h"

#include <algorithm>

#include "base/cpu_affinity.h"
#include "base/log.h"

namespace patchbay {
namespace {

KvDemand kv_demand(const EngineOptions &options, const Model &model) {
  constexpr uint32_t k_default_ctx = 4096;
  KvDemand demand{.n_seqs_max = options.n_seqs_max, .n_ubatch = options.n_ubatch};
  if (options.kv_memory_bytes > 0) {
    demand.n_ctx = kv_tokens_within(options.kv_memory_bytes, model.loaded()->hparams(), demand,
                                    to_ggml(options.cache_type));
  } else {
    demand.n_ctx = options.n_ctx > 0 ? options.n_ctx : std::min(model.n_ctx_train(), k_default_ctx);
  }
  return demand;
}

}  // namespace

uint32_t compute_threads(uint32_t wanted) {
  const uint32_t n_cores = n_allowed_cpus();
  if (wanted > n_cores) log().warn("{} threads on {} cores: using {}", wanted, n_cores, n_cores);
  return wanted == 0 ? n_cores : std::min(wanted, n_cores);
}

ggml_type to_ggml(CacheType type) {
  switch (type) {
    case CacheType::f16:
      return GGML_TYPE_F16;
    case CacheType::f32:
      return GGML_TYPE_F32;
    case CacheType::q8_0:
      return GGML_TYPE_Q8_0;
  }
  return GGML_TYPE_F16;
}

Executor::Options executor_options(const EngineOptions &options, const Model &model) {
  return {.kv = kv_demand(options, model),
          .cache_type = to_ggml(options.cache_type),
          .n_threads = compute_threads(options.n_threads),
          .lora_form = options.lora_form,
          .cache_memory_bytes = options.cache_memory_bytes};
}

}  // namespace patchbay
