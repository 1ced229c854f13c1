#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <random>

#include "apps/chat_answers.h"
#include "apps/chat_commands.h"
#include "apps/chat_model.h"
#include "apps/commands.h"
#include "apps/line_reader.h"
#include "apps/model_files.h"
#include "chat/chat_prompt.h"

namespace patchbay {
namespace {

using Json = nlohmann::ordered_json;
using Kind = ChatCommand::Kind;

constexpr const char *k_help =
    "/adapter NAME[:S] ...  wear these adapters; base: none; without names: show them\n"
    "/strength S            wear them that strongly\n"
    "/compare TEXT          answers of the base and of each adapter, which are not remembered\n"
    "/system TEXT           what the model is told first; without text: nothing\n"
    "/clear                 forget what was said\n"
    "/help, /quit           Ctrl-C stops an answer, Ctrl-D ends\n"
    "//TEXT                 says /TEXT\n";

void print(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

/// Not fmt::print: it throws where standard error cannot be written.
void complain(std::string_view words) {
  std::fputs(fmt::format("patchbay: {}\n", words).c_str(), stderr);
}

Json message(const char *role, std::string content) {
  return {{"role", role}, {"content", std::move(content)}};
}

class Chat {
 public:
  Chat(const ChatCommandArguments &arguments, std::shared_ptr<const Model> model, Engine &engine,
       Interrupts &interrupts)
      : arguments_(arguments),
        model_(std::move(model)),
        engine_(engine),
        interrupts_(interrupts),
        chat_(open_chat(arguments.chat, *model_->loaded())),
        adapters_(open_named_adapters(*model_, arguments.model.loras)),
        system_(arguments.system) {
    for (size_t i = 0; i < adapters_.size(); ++i) {
      names_.push_back(adapters_[i].name);
      strengths_.push_back(arguments.model.loras[i].strength);
      worn_.push_back({i, strengths_.back()});
    }
    if (const auto templates = choose_chat_templates(chat_, own_way(worn_)); !templates)
      throw std::invalid_argument(templates.error().message);
  }

  /// False: it is over.
  bool handle(const std::string &line) {
    const ChatCommand command = parse_chat_command(line);
    switch (command.kind) {
      case Kind::say:
        if (!command.text.empty()) say(command.text);
        break;
      case Kind::adapter:
        choose(command.text);
        break;
      case Kind::strength:
        set_strength(command.text);
        break;
      case Kind::compare:
        compare(command.text);
        break;
      case Kind::system:
        system_ = command.text;
        break;
      case Kind::clear:
        turns_ = Json::array();
        break;
      case Kind::help:
        print(k_help);
        break;
      case Kind::quit:
        return false;
      case Kind::unknown:
        refuse(fmt::format("'{}' is no command: see /help", command.text));
        break;
    }
    return true;
  }

  /// Whether everything that was asked for could be done.
  [[nodiscard]] bool is_well() const { return is_well_; }

 private:
  using Chosen = std::vector<ChosenAdapter>;

  void refuse(std::string_view words) {
    is_well_ = false;
    complain(words);
  }

  /// One adapter alone may be spoken to in a way of its own.
  [[nodiscard]] const RegisteredAdapter *own_way(const Chosen &worn) const {
    return worn.size() == 1 ? &adapters_[worn.front().i_adapter] : nullptr;
  }

  [[nodiscard]] Expected<Request> make_request(const Json &turns, const Chosen &worn) const {
    const auto templates = choose_chat_templates(chat_, own_way(worn));
    if (!templates) return tl::unexpected(templates.error());
    const auto *chosen = (*templates)->choose(/*has_tools=*/false);
    if (chosen == nullptr) return fail(ErrorCode::invalid_argument, "there is no chat template");
    Conversation conversation;
    if (!system_.empty()) conversation.messages.push_back(message("system", system_));
    for (const Json &turn : turns) conversation.messages.push_back(turn);
    const Tokenizer &tokenizer = *model_->loaded()->tokenizer;
    const auto text = chat_text(*chosen, tokenizer, conversation);
    if (!text) return tl::unexpected(text.error());
    const GenerateOptions &generate = arguments_.generate;
    Request request{.prompt = chat_tokens(tokenizer, *text),
                    .sampling = generate.sampling,
                    .n_predict = generate.n_predict,
                    .stop = generate.stop,
                    .ignore_eos = generate.ignore_eos,
                    .grammar = generate.grammar,
                    .json_schema = generate.json_schema};
    request.spans = plan_spans(request.prompt, worn_adapters(worn)).spans;
    return request;
  }

  [[nodiscard]] std::vector<WornAdapter> worn_adapters(const Chosen &worn) const {
    std::vector<WornAdapter> list;
    for (const auto &[i_adapter, strength] : worn)
      list.push_back({adapters_[i_adapter].adapter, strength});
    return list;
  }

  void say(const std::string &text) {
    Json turns = turns_;
    turns.push_back(message("user", text));
    auto request = make_request(turns, worn_);
    if (!request) return refuse(request.error().message);
    std::vector<Request> requests;
    requests.push_back(*std::move(request));
    const ChatAnswer answer =
        answer_all(engine_, std::move(requests), interrupts_, [](size_t, std::string_view part) {
          print(part);
        }).front();
    const bool is_cut = answer.error && answer.error->code == ErrorCode::cancelled;
    const bool has_none = answer.error && !is_cut && answer.text.empty();
    if (!has_none && !answer.text.ends_with('\n')) print("\n");
    if (answer.error && !is_cut) return refuse(answer.error->message);
    turns_ = std::move(turns);
    turns_.push_back(message("assistant", answer.text));
  }

  /// The base's answer and each adapter's, of one batch.
  void compare(const std::string &text) {
    if (text.empty()) return refuse("/compare wants a text");
    Json turns = turns_;
    turns.push_back(message("user", text));
    std::vector<Request> requests;
    std::vector<std::string> titles;
    for (size_t i = 0; i <= adapters_.size(); ++i) {
      const Chosen worn = i == 0 ? Chosen{} : Chosen{{i - 1, strengths_[i - 1]}};
      auto request = make_request(turns, worn);
      if (!request) return refuse(request.error().message);
      requests.push_back(*std::move(request));
      titles.push_back(i == 0 ? "base" : names_[i - 1]);
    }
    const auto answers = answer_all(engine_, std::move(requests), interrupts_, [](auto...) {});
    for (size_t i = 0; i < answers.size(); ++i) {
      print(fmt::format("--- {}\n{}\n", titles[i], answers[i].text));
      const auto &error = answers[i].error;
      if (error && error->code != ErrorCode::cancelled) refuse(error->message);
    }
  }

  void choose(const std::string &words) {
    if (words.empty()) return show_adapters();
    const auto chosen = parse_chosen_adapters(words, names_, strengths_);
    if (!chosen) return refuse(chosen.error().message);
    worn_ = *chosen;
  }

  void set_strength(const std::string &text) {
    const auto strength = parse_strength(text);
    if (!strength) return refuse(strength.error().message);
    if (worn_.empty()) return refuse("no adapter is worn");
    for (auto &one : worn_) one.strength = *strength;
  }

  void show_adapters() const {
    if (adapters_.empty()) print("none are loaded: see --lora\n");
    for (size_t i = 0; i < adapters_.size(); ++i) {
      const auto found = std::ranges::find(worn_, i, &ChosenAdapter::i_adapter);
      print(found == worn_.end() ? fmt::format("{}\n", names_[i])
                                 : fmt::format("{}  worn at {}\n", names_[i], found->strength));
    }
  }

  const ChatCommandArguments &arguments_;
  std::shared_ptr<const Model> model_;
  Engine &engine_;
  Interrupts &interrupts_;
  ServedChat chat_;
  std::vector<RegisteredAdapter> adapters_;
  std::vector<std::string> names_;
  std::vector<float> strengths_;  // as the command line has them
  Chosen worn_;
  std::string system_;
  Json turns_ = Json::array();
  bool is_well_ = true;
};

}  // namespace

int chat(const ChatCommandArguments &given) {
  ChatCommandArguments arguments = given;
  arguments.generate.sampling.seed = arguments.seed ? *arguments.seed : std::random_device{}();
  Interrupts interrupts;
  const auto model = open_model(arguments.model);
  Engine engine(model, arguments.model.engine);
  Chat chat(arguments, model, engine, interrupts);
  LineReader lines("> ", interrupts);
  if (lines.is_terminal()) print("/help shows the commands.\n");
  while (const auto line = lines.next()) {
    if (!chat.handle(*line)) break;
  }
  return chat.is_well() || lines.is_terminal() ? 0 : k_exit_failure;
}

}  // namespace patchbay
