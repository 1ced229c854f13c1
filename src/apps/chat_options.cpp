#include "apps/chat_options.h"

#include "apps/cli_values.h"
#include "apps/input_text.h"

namespace patchbay {

void add_chat_options(CLI::App &app, ChatArguments &chat) {
  auto *text = app.add_option("--chat-template", chat.chat_template,
                              "template for messages, its text or a name such as chatml, gemma, "
                              "llama3 or hermes, in place of the model's own")
                   ->check(check_not_empty)
                   ->type_name("NAME");
  app.add_option_function<std::string>(
         "--chat-template-file",
         [&chat](const std::string &path) {
           chat.chat_template = read_input_text(path);
           if (chat.chat_template.empty())
             throw CLI::ValidationError("--chat-template-file", path + " is empty");
         },
         "the template's text from a file")
      ->check(check_not_empty)
      ->excludes(text)
      ->type_name("FILE");
  switch_off(app, "--no-adapter-chat-templates", chat.adapter_templates,
             "use the base's chat template also with adapters that bring their own");
}

void add_tool_option(CLI::App &app, ChatArguments &chat) {
  app.add_option("--tool-call-parser", chat.tool_call_parser,
                 "how calls of tools are written: hermes, llama3, none, or auto, as the chat "
                 "template shows")
      ->check(CLI::IsMember({"auto", "hermes", "llama3", "none"}))
      ->type_name("STYLE")
      ->default_str("auto");
}

}  // namespace patchbay
