#include "tokenizer/chat_template_set.h"

#include <algorithm>

#include "base/error.h"

namespace patchbay {

namespace {

constexpr std::string_view k_key = "tokenizer.chat_template";
constexpr std::string_view k_named_prefix = "tokenizer.chat_template.";
constexpr std::string_view k_names_key = "tokenizer.chat_templates";

void check_listed(const GgufFile &file, const ChatTemplateSet &set) {
  const auto names = file.get_strings(k_names_key);
  if (!names) return;
  for (const std::string_view name : *names) {
    if (set.find(name) != nullptr) continue;
    throw LoadError({.path = file.path(),
                     .item = std::string(k_names_key),
                     .problem = "lists a template that is missing",
                     .found = std::string(name)});
  }
}

}  // namespace

const ChatTemplateSource *ChatTemplateSet::find(std::string_view name) const {
  const auto at =
      std::find_if(sources.begin(), sources.end(),
                   [&](const ChatTemplateSource &source) { return source.name == name; });
  return at == sources.end() ? nullptr : &*at;
}

const ChatTemplateSource *ChatTemplateSet::choose(bool has_tools) const {
  const ChatTemplateSource *for_tools = has_tools ? find(k_tool_use) : nullptr;
  return for_tools != nullptr ? for_tools : find(k_default);
}

ChatTemplateSet read_chat_templates(const GgufFile &file) {
  ChatTemplateSet set;
  const auto add = [&](std::string_view name, std::string_view key) {
    set.sources.push_back({.name = std::string(name),
                           .text = *file.get_string(key),
                           .path = file.path(),
                           .item = std::string(key)});
  };
  if (file.has(k_key)) add(ChatTemplateSet::k_default, k_key);
  for (const GgufEntry &entry : file.entries()) {
    const std::string_view key = entry.key;
    if (!key.starts_with(k_named_prefix)) continue;
    const std::string_view name = key.substr(k_named_prefix.size());
    if (set.find(name) == nullptr) add(name, key);
  }
  check_listed(file, set);
  return set;
}

}  // namespace patchbay
