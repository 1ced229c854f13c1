#include "server/open_adapter.h"

#include <ctime>

#include "base/log.h"
#include "chat/chat_templates.h"
#include "engine/adapter_chat_templates.h"

namespace patchbay {
namespace {

void read_chat_templates(const std::filesystem::path &path, RegisteredAdapter &entry) {
  try {
    const ChatTemplateSet set = read_adapter_chat_templates(path);
    if (!set.sources.empty()) entry.chat = std::make_shared<const ChatTemplates>(set);
  } catch (const LoadError &error) {
    entry.chat_problem = error.what();
    log().warn("{}: its chat template cannot be used: {}", entry.name, error.what());
  }
}

}  // namespace

RegisteredAdapter open_adapter(const Model &model, const std::string &name,
                               const std::filesystem::path &path) {
  RegisteredAdapter entry{.name = name,
                          .path = path.string(),
                          .adapter = model.load_adapter(path, name),
                          .loaded_at = std::time(nullptr)};
  for (const auto &note : entry.adapter->notes) log().warn("{}: {}", name, note);
  read_chat_templates(path, entry);
  return entry;
}

}  // namespace patchbay
