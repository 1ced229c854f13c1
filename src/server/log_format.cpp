#include "server/log_format.h"

#include <fmt/chrono.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "base/log.h"

namespace patchbay {
namespace {

std::string timestamp(std::chrono::system_clock::time_point time) {
  const auto whole = std::chrono::floor<std::chrono::milliseconds>(time);
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(whole.time_since_epoch() %
                                                                        std::chrono::seconds(1));
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(whole)), ms.count());
}

Json object_of(std::chrono::system_clock::time_point time, std::string_view level,
               std::string_view message) {
  return {{"time", timestamp(time)}, {"level", level}, {"message", message}};
}

/// Lines as JSON objects, whatever bytes a message holds.
class JsonFormatter final : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg &line, spdlog::memory_buf_t &to) override {
    const auto level = spdlog::level::to_string_view(line.level);
    const std::string text = to_text(object_of(line.time, {level.data(), level.size()},
                                               {line.payload.data(), line.payload.size()})) +
                             "\n";
    to.append(text.data(), text.data() + text.size());
  }
  [[nodiscard]] std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<JsonFormatter>();
  }
};

/// What is an object already, as it is.
spdlog::logger &raw_log() {
  static const std::shared_ptr<spdlog::logger> logger = [] {
    auto made = std::make_shared<spdlog::logger>("objects",
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%v");
    return made;
  }();
  return *logger;
}

}  // namespace

namespace {

/// A word as it is; as JSON what would not be one word of the line, or no line.
std::string word_of(const Json &value) {
  const auto is_plain = [](char c) { return c > ' ' && c < '\x7f' && c != '"' && c != '\\'; };
  if (!value.is_string()) return to_text(value);
  const auto &text = value.get_ref<const std::string &>();
  return !text.empty() && std::ranges::all_of(text, is_plain) ? text : to_text(value);
}

}  // namespace

void set_log_format(LogFormat format) {
  if (format == LogFormat::json) {
    log().set_formatter(std::make_unique<JsonFormatter>());
  } else {
    log().set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %^%l%$: %v", spdlog::pattern_time_type::utc);
  }
}

void log_line(LogFormat format, const std::string &message, const Json &fields) {
  if (!log().should_log(spdlog::level::info)) return;
  if (format == LogFormat::json) {
    Json object = object_of(std::chrono::system_clock::now(), "info", message);
    object.update(fields);
    raw_log().info("{}", to_text(object));
    return;
  }
  std::string line = message;
  for (const auto &[key, value] : fields.items())
    line += fmt::format(" {}={}", key, word_of(value));
  log().info("{}", line);
}

}  // namespace patchbay
