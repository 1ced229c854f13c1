#include "chat/chat_prompt.h"

#include <gmock/gmock.h>

#include "base/temp_dir.h"
#include "chat/builtin_chat_templates.h"
#include "chat/chat_messages.h"
#include "gguf/gguf_builder.h"

namespace patchbay {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;

/// Byte-level; 0 <s>, 1 </s>, 2 <|im_start|>, then letters.
std::shared_ptr<const Tokenizer> make_tokenizer(bool adds_bos) {
  std::vector<std::string> tokens{"<s>", "</s>", "<|im_start|>"};
  std::vector<int32_t> types{3, 3, 3};
  for (char letter = '!'; letter <= '~'; ++letter) {
    tokens.emplace_back(1, letter);
    types.push_back(1);
  }
  GgufBuilder builder;
  builder.set("general.architecture", "llama")
      .set("tokenizer.ggml.model", "gpt2")
      .set("tokenizer.ggml.pre", "gpt-2")
      .set_array("tokenizer.ggml.tokens", tokens)
      .set_array("tokenizer.ggml.token_type", types)
      .set_array("tokenizer.ggml.merges", std::vector<std::string>{})
      .set("tokenizer.ggml.bos_token_id", uint32_t{0})
      .set("tokenizer.ggml.eos_token_id", uint32_t{1})
      .set("tokenizer.ggml.add_bos_token", adds_bos);
  const TempDir dir;
  builder.save(dir.path() / "model.gguf");
  return Tokenizer::load(GgufFile::open(dir.path() / "model.gguf"));
}

KnownChatTemplate known(const std::string &text) {
  return *ChatTemplates(text, "test").choose(false);
}

Json user(const Json &content) { return {{"role", "user"}, {"content", content}}; }

/// The text, or "refused: ..." with the words.
std::string text_of(const std::string &chat_template, Conversation conversation) {
  const auto text = chat_text(known(chat_template), *make_tokenizer(true), conversation);
  return text ? *text : "refused: " + text.error().message;
}

std::string text_of(const std::string &chat_template, const Json &messages) {
  return text_of(chat_template, Conversation{.messages = messages});
}

constexpr const char *k_plain =
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}";

TEST(ChatPrompt, TextPartsAreOneText) {
  const Json parts =
      Json::array({{{"type", "text"}, {"text", "a"}}, {{"type", "text"}, {"text", "b"}}});
  EXPECT_EQ(text_of(k_plain, Json::array({user(parts)})), "<user>a\nb<assistant>");
  EXPECT_EQ(text_of(k_plain, Json::array({user(Json::array())})), "<user><assistant>");
}

TEST(ChatPrompt, ATemplateThatShowsPartsOnlyGetsParts) {
  const char *by_parts =
      "{% for m in messages %}<{{ m.role }}>{% for p in m.content %}[{{ p.text }}]{% endfor %}"
      "{% endfor %}";
  EXPECT_EQ(text_of(by_parts, Json::array({user("a")})), "<user>[a]");
  const Json parts =
      Json::array({{{"type", "text"}, {"text", "a"}}, {{"type", "text"}, {"text", "b"}}});
  EXPECT_EQ(text_of(by_parts, Json::array({user(parts)})), "<user>[a][b]");
}

TEST(ChatPrompt, WhatIsNoMessageIsRefusedWithItsPlace) {
  const auto refusal = [](const Json &messages) { return text_of(k_plain, messages); };
  EXPECT_THAT(refusal(Json::array({user("a"), 3})),
              HasSubstr("refused: messages[1] must be an object"));
  EXPECT_THAT(refusal(Json::array({{{"content", "a"}}})), HasSubstr("messages[0].role is missing"));
  EXPECT_THAT(refusal(Json::array({{{"role", 3}}})),
              HasSubstr("messages[0].role must be a string"));
  EXPECT_THAT(refusal(Json::array({{{"role", "critic"}, {"content", "a"}}})),
              HasSubstr("'critic'"));
  EXPECT_THAT(refusal(Json::array({{{"role", "user"}}})),
              HasSubstr("messages[0].content is missing"));
  EXPECT_THAT(refusal(Json::array({user(3)})), HasSubstr("messages[0].content must be"));
  const Json image{{"type", "image_url"}, {"image_url", {{"url", "x"}}}};
  EXPECT_THAT(refusal(Json::array({user(Json::array({image}))})),
              HasSubstr("messages[0].content[0] is of type 'image_url'"));
}

TEST(ChatPrompt, ADeveloperIsTheSystemWhereTheTemplateKnowsNone) {
  const Json messages = Json::array({{{"role", "developer"}, {"content", "x"}}});
  EXPECT_EQ(text_of(k_plain, messages), "<system>x<assistant>");
  EXPECT_EQ(text_of(std::string(k_plain) + "{# developer #}", messages), "<developer>x<assistant>");
}

Json with_call(const Json &arguments) {
  const Json function{{"name", "f"}, {"arguments", arguments}};
  return {{"role", "assistant"},
          {"content", nullptr},
          {"tool_calls", {{{"id", "1"}, {"function", function}}}}};
}

TEST(ChatPrompt, ArgumentsOfCallsAreValues) {
  const char *shown =
      "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls %}"
      "{{ c.function.arguments | tojson }}{% endfor %}{% endfor %}";
  EXPECT_EQ(text_of(shown, Json::array({with_call(R"({"a": [1]})")})), R"({"a": [1]})");
  EXPECT_EQ(text_of(shown, Json::array({with_call({{"a", 1}})})), R"({"a": 1})");
  EXPECT_EQ(text_of(shown, Json::array({with_call("")})), "{}");
  EXPECT_THAT(text_of(shown, Json::array({with_call("{")})),
              HasSubstr("messages[0].tool_calls[0].function.arguments must be"));
  EXPECT_THAT(text_of(k_plain, Json::array({with_call("{}")})), HasSubstr("would not be shown"));
}

TEST(ChatPrompt, ToolsThatWouldNotBeShownAreRefused) {
  const Json tool{{"type", "function"}, {"function", {{"name", "f"}}}};
  const Conversation asked{.messages = Json::array({user("a")}), .tools = Json::array({tool})};
  EXPECT_THAT(text_of(k_plain, asked), HasSubstr("refused: tools would not be shown"));
  EXPECT_EQ(text_of("{{ tools[0].function.name }}", asked), "f");
}

TEST(ChatPrompt, TheLastMessageCanBeGoneOnWith) {
  const auto go_on = [](const char *chat_template, const char *text) {
    return text_of(chat_template,
                   Conversation{.messages = Json::array(
                                    {user("a"), {{"role", "assistant"}, {"content", text}}}),
                                .continue_final_message = true});
  };
  const char *closed = "{% for m in messages %}<{{ m.role }}>{{ m.content }}</end>{% endfor %}";
  EXPECT_EQ(go_on(closed, "b "), "<user>a</end><assistant>b ");
  const char *trimming =
      "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}</end>{% endfor %}";
  EXPECT_EQ(go_on(trimming, " b "), "<user>a</end><assistant>b");
  EXPECT_THAT(go_on(closed, " "), HasSubstr("the last message is empty"));
  EXPECT_THAT(go_on("{{ messages[0].content }}", "b"), HasSubstr("does not show"));
}

TEST(ChatPrompt, VariablesAndSpecialTokensReachTheTemplate) {
  EXPECT_EQ(text_of("{{ bos_token }}{{ x.y }}{{ eos_token }}",
                    Conversation{.variables = {{"x", {{"y", 7}}}}}),
            "<s>7</s>");
  EXPECT_EQ(text_of("{{ raise_exception('not so') }}", Conversation{}), "refused: not so");
}

TEST(ChatPrompt, BosStandsInFrontOnce) {
  const auto with_bos = make_tokenizer(true);
  const auto without = make_tokenizer(false);
  const int32_t a = *with_bos->find("a");
  EXPECT_EQ(chat_tokens(*with_bos, "a"), (std::vector<int32_t>{0, a}));
  EXPECT_EQ(chat_tokens(*with_bos, "<s>a"), (std::vector<int32_t>{0, a}));
  EXPECT_EQ(chat_tokens(*with_bos, ""), (std::vector<int32_t>{0}));
  EXPECT_EQ(chat_tokens(*without, "a<|im_start|>"), (std::vector<int32_t>{a, 2}));
  EXPECT_EQ(chat_tokens(*without, "<s>a"), (std::vector<int32_t>{0, a}));
}

TEST(BuiltinChatTemplates, EachShowsWhoSaysWhat) {
  for (const auto &[name, text] : builtin_chat_templates()) {
    const Json messages = Json::array({{{"role", "system"}, {"content", "Xsys"}},
                                       user("Xone"),
                                       {{"role", "assistant"}, {"content", "Xtwo"}},
                                       user("Xthree")});
    const std::string shown = text_of(std::string(text), messages);
    size_t at = 0;
    for (const char *word : {"Xsys", "Xone", "Xtwo", "Xthree"}) {
      const size_t next = shown.find(word, at);
      ASSERT_NE(next, std::string::npos) << name << ": " << word << " in " << shown;
      at = next;
    }
    EXPECT_EQ(std::string(find_builtin_chat_template(name)), text);
  }
  EXPECT_EQ(text_of(std::string(find_builtin_chat_template("chatml")), Json::array({user("a")})),
            "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(text_of(std::string(find_builtin_chat_template("llama2")),
                    Json::array({{{"role", "system"}, {"content", "S"}},
                                 user("a"),
                                 {{"role", "assistant"}, {"content", "b"}},
                                 user("c")})),
            "<s>[INST] <<SYS>>\nS\n<</SYS>>\n\na [/INST] b </s><s>[INST] c [/INST]");
  EXPECT_EQ(text_of(std::string(find_builtin_chat_template("gemma")),
                    Json::array({{{"role", "system"}, {"content", "S"}}, user(" a ")})),
            "<s><start_of_turn>user\nS\n\na<end_of_turn>\n<start_of_turn>model\n");
}

TEST(BuiltinChatTemplates, TwoTeachCallsOfTools) {
  const Json tool{{"type", "function"},
                  {"function", {{"name", "f"}, {"parameters", {{"type", "object"}}}}}};
  Json call = with_call(R"({"a": 1})");
  call["content"] = "Hm.";
  const Conversation asked{
      .messages = Json::array({user("Q"), call, {{"role", "tool"}, {"content", "R"}}}),
      .tools = Json::array({tool})};
  const std::string hermes = text_of(std::string(find_builtin_chat_template("hermes")), asked);
  EXPECT_THAT(hermes, HasSubstr(tool.dump(-1, ' ').substr(0, 5)));
  EXPECT_THAT(hermes,
              HasSubstr("<|im_start|>assistant\nHm.\n<tool_call>\n{\"name\": \"f\", "
                        "\"arguments\": {\"a\": 1}}\n</tool_call><|im_end|>\n"
                        "<|im_start|>user\n<tool_response>\nR\n</tool_response><|im_end|>\n"));
  const std::string llama3 = text_of(std::string(find_builtin_chat_template("llama3")), asked);
  EXPECT_THAT(llama3, HasSubstr("Hm.{\"name\": \"f\", \"parameters\": {\"a\": 1}}<|eot_id|>"
                                "<|start_header_id|>ipython<|end_header_id|>\n\nR<|eot_id|>"));
  for (const auto &[name, text] : builtin_chat_templates()) {
    const auto wanted = name == "hermes"   ? ToolCallStyle::hermes
                        : name == "llama3" ? ToolCallStyle::llama3
                                           : ToolCallStyle::none;
    EXPECT_EQ(detect_tool_call_style(text), wanted) << name;
  }
}

TEST(CheckTools, NamesWhatIsWrong) {
  const auto refusal = [](const char *tools) {
    const auto checked = check_tools(Json::parse(tools));
    return checked ? "" : checked.error().message;
  };
  EXPECT_EQ(refusal(R"([{"type": "function", "function": {"name": "f"}}])"), "");
  EXPECT_THAT(refusal("[3]"), HasSubstr("tools[0] must be an object"));
  EXPECT_THAT(refusal(R"([{"type": "web"}])"), HasSubstr("tools[0].type"));
  EXPECT_THAT(refusal(R"([{"type": "function"}])"), HasSubstr("tools[0].function is missing"));
  EXPECT_THAT(refusal(R"([{"type": "function", "function": {"name": ""}}])"),
              HasSubstr("tools[0].function.name"));
  EXPECT_THAT(refusal(R"([{"type": "function", "function": {"name": "f", "parameters": []}}])"),
              HasSubstr("tools[0].function.parameters must be an object"));
  EXPECT_THAT(refusal(R"([{"type": "function", "function": {"name": "f"}},
                          {"type": "function", "function": {"name": "f"}}])"),
              HasSubstr("tools[1].function.name 'f' is there twice"));
}

}  // namespace
}  // namespace patchbay
