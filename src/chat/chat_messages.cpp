#include "chat/chat_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>

#include "base/read_json.h"

namespace patchbay {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t k_most_tools = 1024;
constexpr size_t k_longest_name = 256;

/// What is wrong, with its place. Caught in messages_for() and check_tools().
struct Refusal {
  std::string words;
};

template <class... Args>
[[noreturn]] void refuse(const std::string &place, fmt::format_string<Args...> text,
                         Args &&...args) {
  // NOLINTNEXTLINE(bugprone-std-exception-baseclass): it does not leave this file
  throw Refusal{place + " " + fmt::format(text, std::forward<Args>(args)...)};
}

const Json *find(const Json &object, const char *key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

void want_object(const Json &value, const std::string &place) {
  if (!value.is_object()) refuse(place, "must be an object, found {}", value.type_name());
}

std::string want_text(const Json &object, const char *key, const std::string &place) {
  const Json *value = find(object, key);
  const std::string here = place + "." + key;
  if (value == nullptr) refuse(here, "is missing: want a string");
  if (!value->is_string()) refuse(here, "must be a string, found {}", value->type_name());
  return value->get<std::string>();
}

std::string part_text(const Json &part, const std::string &place) {
  want_object(part, place);
  const std::string type = want_text(part, "type", place);
  if (type != "text") refuse(place, "is of type '{}': only text parts are supported", type);
  return want_text(part, "text", place);
}

/// The content as one text.
std::string content_text(const Json &content, const std::string &place) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array())
    refuse(place, "must be a string or an array of parts, found {}", content.type_name());
  std::string text;
  for (size_t i = 0; i < content.size(); ++i) {
    if (i > 0) text += '\n';
    text += part_text(content[i], fmt::format("{}[{}]", place, i));
  }
  return text;
}

/// Templates print arguments as JSON, so they have to be values and no texts of values.
Json read_arguments(const Json &function, const std::string &place) {
  const Json *arguments = find(function, "arguments");
  if (arguments == nullptr) return Json::object();
  Json value = *arguments;
  if (value.is_string()) {
    const auto &text = arguments->get_ref<const std::string &>();
    value = text.empty() ? Json::object() : read_json(text).value_or(Json());
  }
  if (!value.is_object()) refuse(place + ".arguments", "must be the JSON text of an object");
  return value;
}

void read_calls(Json &calls, const std::string &place) {
  if (!calls.is_array()) refuse(place, "must be an array, found {}", calls.type_name());
  for (size_t i = 0; i < calls.size(); ++i) {
    const std::string here = fmt::format("{}[{}]", place, i);
    want_object(calls[i], here);
    const Json *function = find(calls[i], "function");
    const std::string inner = here + ".function";
    if (function == nullptr) refuse(inner, "is missing: want an object");
    want_object(*function, inner);
    (void)want_text(*function, "name", inner);
    calls[i]["function"]["arguments"] = read_arguments(*function, inner);
  }
}

class MessageReader {
 public:
  explicit MessageReader(const KnownChatTemplate &chat_template) : template_(chat_template) {}

  Json read(const Json &message, const std::string &place) {
    want_object(message, place);
    Json made = message;
    made["role"] = read_role(message, place);
    const bool has_calls = find(message, "tool_calls") != nullptr;
    if (has_calls) {
      read_calls(made["tool_calls"], place + ".tool_calls");
      if (!made["tool_calls"].empty() && !template_.mentions("tool_calls"))
        refuse(place + ".tool_calls", "would not be shown by this model's chat template");
    }
    made["content"] = read_content(message, has_calls, place);
    return made;
  }

 private:
  std::string read_role(const Json &message, const std::string &place) {
    constexpr std::array<std::string_view, 4> k_known{"system", "user", "assistant", "tool"};
    std::string role = want_text(message, "role", place);
    const bool is_known = std::ranges::find(k_known, role) != k_known.end();
    if (is_known || (!role.empty() && template_.mentions(role))) return role;
    if (role == "developer") return "system";
    refuse(place + ".role",
           "must be one of system, developer, user, assistant, tool, or another one that the chat "
           "template knows, found '{}'",
           role);
  }

  Json read_content(const Json &message, bool has_calls, const std::string &place) {
    const Json *content = find(message, "content");
    const std::string here = place + ".content";
    if (content == nullptr && !has_calls)
      refuse(here, "is missing: want a string or an array of parts");
    std::string text = content == nullptr ? std::string() : content_text(*content, here);
    if (!template_.wants_parts) return text;
    if (content != nullptr && content->is_array()) return *content;
    return Json::array({{{"type", "text"}, {"text", std::move(text)}}});
  }

  const KnownChatTemplate &template_;
};

void check_tool(const Json &tool, const std::string &place, std::set<std::string> &names) {
  want_object(tool, place);
  const std::string type = want_text(tool, "type", place);
  if (type != "function") refuse(place + ".type", "must be 'function', found '{}'", type);
  const Json *function = find(tool, "function");
  const std::string inner = place + ".function";
  if (function == nullptr) refuse(inner, "is missing: want an object");
  want_object(*function, inner);
  const std::string name = want_text(*function, "name", inner);
  if (name.empty() || name.size() > k_longest_name)
    refuse(inner + ".name", "must have 1 to {} bytes", k_longest_name);
  if (!names.insert(name).second) refuse(inner + ".name", "'{}' is there twice", name);
  const Json *parameters = find(*function, "parameters");
  if (parameters != nullptr) want_object(*parameters, inner + ".parameters");
}

}  // namespace

Expected<Json> messages_for(const KnownChatTemplate &chat_template, const Json &messages) {
  MessageReader reader(chat_template);
  try {
    Json made = Json::array();
    for (size_t i = 0; i < messages.size(); ++i)
      made.push_back(reader.read(messages[i], fmt::format("messages[{}]", i)));
    return made;
  } catch (const Refusal &refusal) {
    return fail(ErrorCode::invalid_argument, refusal.words);
  }
}

Expected<void> check_tools(const Json &tools) {
  try {
    if (tools.size() > k_most_tools) refuse("tools", "may have {} members at most", k_most_tools);
    std::set<std::string> names;
    for (size_t i = 0; i < tools.size(); ++i)
      check_tool(tools[i], fmt::format("tools[{}]", i), names);
    return {};
  } catch (const Refusal &refusal) {
    return fail(ErrorCode::invalid_argument, refusal.words);
  }
}

}  // namespace patchbay
