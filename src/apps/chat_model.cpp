#include "apps/chat_model.h"

#include <fmt/format.h>

#include "base/log.h"
#include "server/open_adapter.h"

namespace patchbay {

ServedChat open_chat(const ChatArguments &arguments, const LoadedModel &model) {
  ServedChat chat{.with_adapters = arguments.adapter_templates};
  if (arguments.tool_call_parser != "auto")
    chat.calls = parse_tool_call_style(arguments.tool_call_parser);
  if (model.tokenizer == nullptr) {
    chat.problem = "the model has no tokenizer";
    return chat;
  }
  const bool is_named = !arguments.chat_template.empty();
  try {
    chat.base = is_named ? chat_templates_of(arguments.chat_template)
                         : model_chat_templates(*model.file, *model.tokenizer);
    if (chat.base == nullptr) chat.problem = "the model has no chat template";
  } catch (const LoadError &error) {
    if (is_named) throw;
    chat.problem = fmt::format("the model's chat template cannot be used ({})", error.what());
    log().warn("{}", chat.problem);
  }
  return chat;
}

std::vector<RegisteredAdapter> open_named_adapters(const Model &model,
                                                   const std::vector<LoraItem> &items) {
  std::vector<RegisteredAdapter> entries;
  for (const auto &item : items) entries.push_back(open_adapter(model, item.name, item.path));
  return entries;
}

}  // namespace patchbay
