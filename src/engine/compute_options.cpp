#include "engine/compute_options.h"

#include <algorithm>
#include <thread>

#include "base/log.h"
#include "engine/cpu_affinity.h"

namespace patchbay {

uint32_t compute_threads(uint32_t wanted) {
  auto n_cores = static_cast<uint32_t>(allowed_cpus().size());
  if (n_cores == 0) n_cores = std::max(1U, std::thread::hardware_concurrency());
  if (wanted > n_cores) log().warn("{} threads on {} cores: using {}", wanted, n_cores, n_cores);
  return wanted == 0 ? n_cores : std::min(wanted, n_cores);
}

ggml_type to_ggml(CacheType type) { return type == CacheType::f32 ? GGML_TYPE_F32 : GGML_TYPE_F16; }

}  // namespace patchbay
