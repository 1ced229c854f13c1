#pragma once

#include <spdlog/spdlog.h>

namespace patchbay {

/// The one logger; writes to stderr. Safe from any thread.
[[nodiscard]] spdlog::logger &log();

/// Sends ggml's own messages to our logger (its chatter at debug level) and keeps its aborts from
/// forking a debugger. Call once, before the first ggml call.
void route_ggml_log();

}  // namespace patchbay
