#include "engine/adapter_chat_templates.h"

#include <fmt/format.h>

#include <system_error>

#include "base/error.h"
#include "base/regular_file.h"
#include "lora/json_file.h"
#include "lora/peft_folder.h"

namespace patchbay {

namespace {

namespace fs = std::filesystem;

constexpr const char *k_template_file = "chat_template.jinja";
constexpr const char *k_config_file = "tokenizer_config.json";
constexpr const char *k_config_key = "chat_template";

bool has_file(const fs::path &path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

ChatTemplateSource read_file(const fs::path &path) {
  const auto file = RegularFile::open(path);
  return {.name = std::string(ChatTemplateSet::k_default),
          .text = file.read_all(),
          .path = file.path(),
          .item = {}};
}

/// One {name, template} of a list.
ChatTemplateSource read_entry(const JsonFile &config, const nlohmann::ordered_json &entry) {
  const auto is_text = [&](const char *key) {
    return entry.is_object() && entry.contains(key) && entry[key].is_string();
  };
  if (!is_text("name") || !is_text("template")) {
    throw LoadError({.path = config.path(),
                     .item = k_config_key,
                     .problem = "has an entry of another form",
                     .wanted = "{name, template}, both texts",
                     .found = shown(entry)});
  }
  const auto name = entry["name"].get<std::string>();
  return {.name = name,
          .text = entry["template"].get<std::string>(),
          .path = config.path(),
          .item = fmt::format("{} \"{}\"", k_config_key, name)};
}

ChatTemplateSet read_config(const JsonFile &config) {
  ChatTemplateSet set;
  const auto *value = config.find(k_config_key);
  if (value == nullptr) return set;
  if (value->is_string()) {
    set.sources.push_back({.name = std::string(ChatTemplateSet::k_default),
                           .text = value->get<std::string>(),
                           .path = config.path(),
                           .item = k_config_key});
    return set;
  }
  if (!value->is_array()) config.refuse_type(k_config_key, "a text or a list");
  for (const auto &entry : *value) {
    auto source = read_entry(config, entry);
    // As transformers reads the list into a dict: the last one of a name.
    if (const auto *known = set.find(source.name)) {
      set.sources[static_cast<size_t>(known - set.sources.data())] = std::move(source);
    } else {
      set.sources.push_back(std::move(source));
    }
  }
  return set;
}

}  // namespace

ChatTemplateSet read_adapter_chat_templates(const fs::path &adapter) {
  const auto folder = find_peft_folder(adapter);
  if (!folder) return {};
  if (has_file(*folder / k_template_file))
    return {.sources = {read_file(*folder / k_template_file)}};
  if (has_file(*folder / k_config_file))
    return read_config(JsonFile::open(*folder / k_config_file));
  return {};
}

}  // namespace patchbay
