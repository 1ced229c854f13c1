#pragma once

#include <ggml.h>

#include <cstdint>

#include "engine/executor.h"
#include "patchbay/engine.hpp"

namespace patchbay {

/// The number of compute threads for `wanted`, 0 meaning one per core that this process may
/// use. Never more than that: threads wait for each other after every node of a graph, so more only
/// take turns. Says so when it cuts the number down.
[[nodiscard]] uint32_t compute_threads(uint32_t wanted);

[[nodiscard]] ggml_type to_ggml(CacheType type);

/// How the executor of an engine with these options computes over `model`.
[[nodiscard]] Executor::Options executor_options(const EngineOptions &options, const Model &model);

}  // namespace patchbay
