// Renders chat templates for tests/templates/: reads JSON lines {template, messages, tools,
// context, now} and answers each with {text} or {error, stage}.

#include <chrono>
#include <exception>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "tokenizer/chat_template.h"

namespace {

using nlohmann::ordered_json;
using patchbay::ChatTemplate;

ordered_json render(const ChatTemplate &chat_template, const ordered_json &request) {
  const ordered_json none;
  const ordered_json empty = ordered_json::object();
  const auto member = [&](const char *name, const ordered_json &otherwise) -> const ordered_json & {
    return request.contains(name) ? request[name] : otherwise;
  };
  const auto result =
      chat_template.render({.messages = member("messages", none),
                            .tools = member("tools", none),
                            .context = member("context", empty),
                            .now = std::chrono::system_clock::time_point(
                                std::chrono::microseconds(request.value("now", int64_t{0})))});
  if (!result) return {{"error", result.error().message}, {"stage", "render"}};
  return {{"text", *result}};
}

ordered_json answer(const ordered_json &request) {
  try {
    return render(
        ChatTemplate::parse(request.at("template").get<std::string>(), "file", "template"),
        request);
  } catch (const patchbay::LoadError &error) {
    return {{"error", error.what()}, {"stage", "parse"}};
  }
}

}  // namespace

int main() {
  try {
    std::ios::sync_with_stdio(false);
    std::string line;
    while (std::getline(std::cin, line)) {
      std::cout << answer(ordered_json::parse(line)).dump() << '\n' << std::flush;
    }
  } catch (const std::exception &error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  return 0;
}
