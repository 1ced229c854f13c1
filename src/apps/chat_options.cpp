#include "apps/chat_options.h"

#include "apps/cli_values.h"
#include "apps/input_text.h"

namespace patchbay {

void add_chat_template_options(CLI::App &app, std::string &chat_template) {
  auto *text = app.add_option("--chat-template", chat_template,
                              "template for messages, its text or a name such as chatml, gemma, "
                              "llama3 or hermes, in place of the model's own")
                   ->check(check_not_empty)
                   ->type_name("NAME");
  app.add_option_function<std::string>(
         "--chat-template-file",
         [&chat_template](const std::string &path) {
           chat_template = read_input_text(path);
           if (chat_template.empty())
             throw CLI::ValidationError("--chat-template-file", path + " is empty");
         },
         "the template's text from a file")
      ->check(check_not_empty)
      ->excludes(text)
      ->type_name("FILE");
}

}  // namespace patchbay
