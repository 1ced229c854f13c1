#include "server/chat_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "chat/chat_messages.h"
#include "chat/tool_call_grammar.h"
#include "engine/loaded_model.h"
#include "server/prompt_fields.h"

namespace patchbay {
namespace {

using Calls = ChatRequest::Calls;

tl::unexpected<Error> refuse(std::string words) {
  return fail(ErrorCode::invalid_argument, std::move(words));
}

void remember(JsonFields &fields, const std::string &param, const std::string &words) {
  ApiError error;
  error.error.code = ErrorCode::invalid_argument;
  error.error.message = words;
  error.param = param;
  fields.take_error(error);
}

bool has_tool(const Json &tools, const std::string &name) {
  return std::ranges::any_of(tools,
                             [&](const Json &tool) { return tool["function"]["name"] == name; });
}

/// {"type": "function", "function": {"name"}}
void read_named_choice(JsonFields &fields, const Json &choice, ChatRequest &chat) {
  JsonFields outer(choice, "tool_choice");
  const Json *function = outer.object("function");
  if (outer.text("type").value_or("") != "function" || function == nullptr) {
    fields.refuse("tool_choice",
                  "none, auto, required or {\"type\": \"function\", \"function\": {\"name\"}}",
                  choice);
    return;
  }
  JsonFields inner(*function, "tool_choice.function");
  chat.calls = Calls::always;
  chat.tool = inner.text("name").value_or("");
  if (inner.error() != nullptr) return fields.take_error(*inner.error());
  if (!has_tool(chat.conversation.tools, chat.tool))
    remember(fields, "tool_choice",
             fmt::format("tool_choice names '{}', which is none of the tools", chat.tool));
}

void read_tool_choice(JsonFields &fields, ChatRequest &chat) {
  const Json *choice = fields.any("tool_choice");
  const bool has_tools = !chat.conversation.tools.is_null();
  chat.calls = has_tools ? Calls::maybe : Calls::never;
  if (choice == nullptr) return;
  if (choice->is_object()) return read_named_choice(fields, *choice, chat);
  if (*choice == "none") {
    chat.calls = Calls::never;
  } else if (*choice == "required") {
    chat.calls = Calls::always;
    if (!has_tools)
      remember(fields, "tool_choice", "tool_choice is required, and there are no tools");
  } else if (*choice != "auto") {
    fields.refuse("tool_choice",
                  "none, auto, required or {\"type\": \"function\", \"function\": {\"name\"}}",
                  *choice);
  }
}

void read_tools(JsonFields &fields, ChatRequest &chat) {
  for (const char *older : {"functions", "function_call"}) {
    if (fields.any(older) != nullptr)
      remember(fields, older,
               fmt::format("{} is not supported: send tools and tool_choice", older));
  }
  const Json *tools = fields.array("tools");
  if (tools != nullptr && !tools->empty()) {
    const auto checked = check_tools(*tools);
    if (!checked) return remember(fields, "tools", checked.error().message);
    chat.conversation.tools = *tools;
  }
  read_tool_choice(fields, chat);
  chat.parallel = fields.flag("parallel_tool_calls").value_or(true) && chat.tool.empty();
  // A model that must not call is not shown what it could.
  if (chat.calls == Calls::never) chat.conversation.tools = nullptr;
}

void read_variables(JsonFields &fields, Conversation &conversation) {
  const Json *variables = fields.object("chat_template_kwargs");
  if (variables == nullptr) return;
  for (const char *taken : {"messages", "tools", "add_generation_prompt"}) {
    if (variables->contains(taken))
      remember(fields, "chat_template_kwargs",
               fmt::format("chat_template_kwargs.{} is a field of its own", taken));
  }
  conversation.variables = *variables;
}

/// The adapter that the request calls by name as its model, whose own way to be spoken to counts.
const RegisteredAdapter *named_adapter(const Service &service, const AdapterChoice &choice) {
  const bool is_named = choice.model != service.model_id && choice.worn.size() == 1;
  return is_named ? &choice.worn.front().entry : nullptr;
}

/// Where a style's tags are control tokens, they still have to be read.
std::vector<int32_t> shown_tokens(const Tokenizer &tokenizer, ToolCallStyle style) {
  std::vector<int32_t> tokens;
  for (const auto tag : {opening_tag(style), closing_tag(style)}) {
    const auto token = tag.empty() ? std::nullopt : tokenizer.find(tag);
    if (token && tokenizer.is_control(*token)) tokens.push_back(*token);
  }
  return tokens;
}

Expected<void> hold_to_calls(const ChatRequest &chat, ToolCallStyle style, Request &request) {
  if (style == ToolCallStyle::none) {
    return refuse(
        "tool_choice: it is not known how this model's chat template writes calls; the server's "
        "flag --tool-call-parser says it");
  }
  Json tools = chat.conversation.tools;
  if (!chat.tool.empty()) {
    for (size_t i = tools.size(); i-- > 0;) {
      if (tools[i]["function"]["name"] != chat.tool) tools.erase(i);
    }
  }
  auto made = tool_call_grammar(style, tools, chat.parallel);
  if (!made) return tl::unexpected(made.error());
  request.grammar = std::move(made->grammar);
  request.json_schema = std::move(made->json_schema);
  return {};
}

}  // namespace

ChatRequest read_chat_request(JsonFields &fields) {
  ChatRequest chat;
  const Json *messages = fields.array("messages");
  if (messages == nullptr || messages->empty()) {
    fields.refuse("messages", "an array of at least one message",
                  messages == nullptr ? Json() : *messages);
  } else {
    chat.conversation.messages = *messages;
  }
  read_tools(fields, chat);
  Conversation &conversation = chat.conversation;
  read_variables(fields, conversation);
  conversation.continue_final_message = fields.flag("continue_final_message").value_or(false);
  conversation.add_generation_prompt =
      fields.flag("add_generation_prompt").value_or(!conversation.continue_final_message);
  if (conversation.add_generation_prompt && conversation.continue_final_message)
    remember(fields, "continue_final_message",
             "continue_final_message and add_generation_prompt exclude each other");
  return chat;
}

Expected<const KnownChatTemplate *> template_for(const Service &service,
                                                 const AdapterChoice &choice,
                                                 const ChatRequest &chat) {
  if (!service.model->has_tokenizer())
    return refuse("the model has no tokenizer: send token ids to /v1/completions");
  const auto templates = choose_chat_templates(service.chat, named_adapter(service, choice));
  if (!templates) return tl::unexpected(templates.error());
  // The adapter or the service keeps them; both outlive the request's reading.
  const auto *chosen = (*templates)->choose(!chat.conversation.tools.is_null());
  if (chosen == nullptr) return refuse("there is no default chat template, only one for tools");
  return chosen;
}

Expected<ChatAnswerForm> complete_request(const Service &service, const AdapterChoice &choice,
                                          const ChatRequest &chat, Request &request) {
  const auto chosen = template_for(service, choice, chat);
  if (!chosen) return tl::unexpected(chosen.error());
  const Tokenizer &tokenizer = *service.model->loaded()->tokenizer;
  const auto text = chat_text(**chosen, tokenizer, chat.conversation);
  if (!text) return tl::unexpected(text.error());
  if (const auto fits = check_prompt_size(text->size(), service); !fits)
    return tl::unexpected(fits.error());
  ChatAnswerForm form;
  if (chat.calls != Calls::never) {
    form.style = service.chat.calls.value_or((*chosen)->style);
    form.is_certain = chat.calls == Calls::always;
    form.n_calls_max = chat.parallel ? std::numeric_limits<uint32_t>::max() : 1;
    for (const Json &tool : chat.conversation.tools)
      form.tools.insert(tool["function"]["name"].get<std::string>());
    if (!request.grammar.empty() || !request.json_schema.empty())
      return refuse(
          "response_format, json_schema and grammar cannot be met by calls of tools: leave one of "
          "them out, or say tool_choice none");
    request.shown_tokens = shown_tokens(tokenizer, form.style);
  }
  if (form.is_certain) {
    const auto held = hold_to_calls(chat, form.style, request);
    if (!held) return tl::unexpected(held.error());
  }
  request.prompt = chat_tokens(tokenizer, *text);
  return form;
}

}  // namespace patchbay
