#include "base/log.h"

#include <ggml.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <cstdlib>
#include <memory>
#include <string_view>

namespace patchbay {

spdlog::logger &log() {
  static const std::shared_ptr<spdlog::logger> logger = [] {
    auto made = std::make_shared<spdlog::logger>(
        "patchbay", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    made->set_pattern("%^%l%$: %v");
    made->set_level(spdlog::level::warn);
    return made;
  }();
  return *logger;
}

void route_ggml_log() {
  // ggml would otherwise start gdb for a backtrace on every abort.
  setenv("GGML_NO_BACKTRACE", "1", 0);
  ggml_log_set(
      [](ggml_log_level level, const char *text, void *) {
        std::string_view line(text);
        while (!line.empty() && line.back() == '\n') line.remove_suffix(1);
        if (line.empty()) return;
        const auto to = level == GGML_LOG_LEVEL_ERROR  ? spdlog::level::err
                        : level == GGML_LOG_LEVEL_WARN ? spdlog::level::warn
                                                       : spdlog::level::debug;
        log().log(to, "ggml: {}", line);
      },
      nullptr);
}

}  // namespace patchbay
