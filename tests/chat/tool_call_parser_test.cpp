#include "chat/tool_call_parser.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

namespace patchbay {
namespace {

/// Deltas joined and written out: "text" for content, [0 name](arguments) for calls.
class Transcript {
 public:
  void add(const std::vector<AnswerDelta> &deltas) {
    for (const auto &delta : deltas) std::visit(*this, delta);
  }
  void operator()(const ContentDelta &delta) {
    open('"');
    text_ += delta.text;
  }
  void operator()(const ToolCallBegun &delta) {
    close();
    text_ += fmt::format("[{} {}]", delta.i_call, delta.name);
    i_call_ = delta.i_call;
  }
  void operator()(const ArgumentsDelta &delta) {
    EXPECT_EQ(delta.i_call, i_call_);
    open('(');
    text_ += delta.text;
  }
  [[nodiscard]] std::string text() {
    close();
    return text_;
  }

 private:
  void open(char kind) {
    if (kind_ == kind) return;
    close();
    text_ += kind_ = kind;
  }
  void close() {
    if (kind_ != 0) text_ += kind_ == '(' ? ')' : '"';
    kind_ = 0;
  }

  std::string text_;
  char kind_ = 0;
  uint32_t i_call_ = 0;
};

using Options = ToolCallParser::Options;

Options with(ToolCallStyle style, bool is_certain = false) {
  return {.style = style, .names = {"now", "get", "f\"g"}, .is_certain = is_certain};
}

std::string parse(const Options &options, const std::vector<std::string> &parts) {
  ToolCallParser parser(options);
  Transcript transcript;
  for (const auto &part : parts) transcript.add(parser.push(part));
  transcript.add(parser.finish());
  return transcript.text();
}

/// The text at once; and it is checked that no way to cut it makes a difference.
std::string parse(const Options &options, const std::string &text) {
  const std::string whole = parse(options, std::vector{text});
  for (size_t i = 0; i <= text.size(); ++i)
    EXPECT_EQ(parse(options, {text.substr(0, i), text.substr(i)}), whole) << i << " of " << text;
  std::vector<std::string> bytes;
  for (const char c : text) bytes.emplace_back(1, c);
  EXPECT_EQ(parse(options, bytes), whole) << text;
  return whole;
}

std::string hermes(const std::string &text) { return parse(with(ToolCallStyle::hermes), text); }
std::string llama3(const std::string &text) { return parse(with(ToolCallStyle::llama3), text); }

TEST(ToolCallParser, TextWithoutCallsIsContent) {
  for (const std::string text :
       {"", "Hello.", " \n a  b \n\n", "a < b <tool", "<tool_cal>", "</tool_call>", "{\"a\": 1"}) {
    const std::string wanted = text.empty() ? "" : "\"" + text + "\"";
    EXPECT_EQ(hermes(text), wanted);
    EXPECT_EQ(llama3(text), wanted);
    EXPECT_EQ(parse(with(ToolCallStyle::none), text), wanted);
  }
}

TEST(ToolCallParser, HermesCallsStandBetweenTags) {
  EXPECT_EQ(
      hermes("<tool_call>\n{\"name\": \"get\", \"arguments\": {\"a\": [1, {}]}}\n</tool_call>"),
      "[0 get]({\"a\": [1, {}]})");
  EXPECT_EQ(hermes("I look.\n\n<tool_call>{\"arguments\":{},\"name\":\"now\"}</tool_call>\n"
                   "<tool_call>\n{\"name\": \"get\", \"arguments\": {\"b\": \"}</tool_call>\"}}\n"
                   "</tool_call>\n"),
            "\"I look.\"[0 now]({})[1 get]({\"b\": \"}</tool_call>\"})");
  EXPECT_EQ(hermes("<tool_call>{\"name\": \"get\", \"arguments\": {}}</tool_call> done. "),
            "[0 get]({})\" done. \"");
  EXPECT_EQ(hermes("<tool_call>{\"name\": \"f\\u0022g\", \"arguments\": {}}"), "[0 f\"g]({})");
  EXPECT_EQ(hermes("<tool_call>{\"name\": \"now\"}</tool_call>"), "[0 now]({})");
  EXPECT_EQ(
      hermes("<tool_call>{\"name\": \"get\", \"parameters\": {\"é\": 1}, \"id\": 7}</tool_call>"),
      "[0 get]({\"é\": 1})");
}

TEST(ToolCallParser, WhatIsNoCallIsContentToTheLastByte) {
  for (const std::string inner :
       {"", "x", "{}", "[]", "{\"name\": \"get\", \"arguments\": {\"a\": }}",
        "{\"name\": \"get\", \"arguments\": {}", "{\"name\": \"get\", \"arguments\": []}",
        "{\"name\": \"get\", \"arguments\": \"{}\"}", "{\"name\": 3, \"arguments\": {}}",
        "{\"arguments\": {}}", "{\"name\": \"other\", \"arguments\": {}}",
        "{\"name\": \"\\ud800\", \"arguments\": {}}",
        "{\"name\": \"get\", \"name\": \"now\", \"arguments\": {}}",
        "{\"name\": \"other\", \"arguments\": {\"a\": \"<tool_call>{}\"}}"}) {
    for (const std::string after : {"", "</tool_call>", "\n</tool_call>\nand so on. "}) {
      const std::string text = " Well, <tool_call>\n" + inner + after;
      EXPECT_EQ(hermes(text), "\"" + text + "\"");
    }
  }
}

TEST(ToolCallParser, ACallAfterADamagedOneIsFound) {
  const std::string good = "<tool_call>{\"name\": \"get\", \"arguments\": {\"a\": 1}}</tool_call>";
  for (const std::string bad : {"<tool_call>{\"name\": \"get\", \"arguments\": {]}", "<tool_call>",
                                "<tool_call>{\"name\": \"other\", \"arguments\": {}}</tool_call>"})
    EXPECT_EQ(hermes(bad + good), "\"" + bad + "\"[0 get]({\"a\": 1})") << bad;
  // A string that is not closed takes everything behind it along until the answer ends.
  EXPECT_EQ(hermes("<tool_call>{\"na" + good), "\"<tool_call>{\"na\"[0 get]({\"a\": 1})");
}

TEST(ToolCallParser, LlamaCallsAreTheAnswer) {
  EXPECT_EQ(llama3("{\"name\": \"get\", \"parameters\": {\"a\": 1}}"), "[0 get]({\"a\": 1})");
  EXPECT_EQ(llama3("\n <|python_tag|>{\"name\": \"get\", \"parameters\": {}}"), "[0 get]({})");
  EXPECT_EQ(
      llama3("{\"name\": \"get\", \"parameters\": {}}; {\"name\": \"now\", \"arguments\": {}}\n"),
      "[0 get]({})[1 now]({})");
  EXPECT_EQ(llama3("So: <|python_tag|>{\"name\": \"get\", \"parameters\": {}}"),
            "\"So:\"[0 get]({})");
}

TEST(ToolCallParser, OtherJsonOfALlamaIsContent) {
  for (const std::string text :
       {"{\"name\": \"Bob\", \"age\": 3}", "{\"name\": \"get\"}", "{}", "{\"a\": 1", "[1]",
        "Look: {\"name\": \"get\", \"parameters\": {}}", "<|python_tag|>search.call(query=\"x\")",
        "{\"name\": \"get\", \"parameters\": {}"})
    EXPECT_EQ(llama3(text), "\"" + text + "\"");
  EXPECT_EQ(llama3("{\"name\": \"get\", \"parameters\": {}}; and more"),
            "[0 get]({})\"; and more\"");
}

TEST(ToolCallParser, NoMoreCallsThanAsked) {
  Options options = with(ToolCallStyle::hermes);
  options.n_calls_max = 1;
  const std::string call = "<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>";
  EXPECT_EQ(parse(options, call + "\n"), "[0 now]({})");
  EXPECT_EQ(parse(options, call + "\n" + call), "[0 now]({})\"\n" + call + "\"");
}

TEST(ToolCallParser, ArgumentsThatAreCertainArePassedOnAtOnce) {
  const std::string call =
      "<tool_call>\n{\"name\": \"get\", \"arguments\": {\"a\": \"bc\"}}\n</tool_call>";
  const auto options = with(ToolCallStyle::hermes, /*is_certain=*/true);
  EXPECT_EQ(parse(options, call + "\n" + call), "[0 get]({\"a\": \"bc\"})[1 get]({\"a\": \"bc\"})");
  EXPECT_EQ(parse(options, "<tool_call>\n{\"name\": \"get\", \"arguments\": {\"a\": \"b"),
            "[0 get]({\"a\": \"b)");
  EXPECT_EQ(parse(options, "<tool_call>\n{\"name\": \"ge"), "\"<tool_call>\n{\"name\": \"ge\"");
  ToolCallParser parser(options);
  Transcript transcript;
  transcript.add(parser.push("<tool_call>\n{\"name\": \"get\", \"arguments\": {\"a\": \"b"));
  EXPECT_EQ(transcript.text(), "[0 get]({\"a\": \"b)");
  EXPECT_EQ(parser.n_calls(), 0U);
  (void)parser.finish();
  EXPECT_EQ(parser.n_calls(), 1U);  // one that is cut off
}

TEST(ToolCallParser, NothingIsLostOfAnyText) {
  const std::vector<std::string> words{"<tool_call>",
                                       "</tool_call>",
                                       "<|python_tag|>",
                                       "{",
                                       "}",
                                       "\"",
                                       "\"name\": \"get\"",
                                       ", \"arguments\": {}",
                                       "\n",
                                       " ",
                                       ":",
                                       ",",
                                       "{\"name\": \"now\", \"arguments\": {}}",
                                       "a",
                                       ";",
                                       "<"};
  std::mt19937 random(3);
  for (int i = 0; i < 3000; ++i) {
    std::vector<std::string> parts;
    std::string text;
    for (size_t n = random() % 12; n > 0; --n)
      text += parts.emplace_back(words[random() % words.size()]);
    for (const auto style : {ToolCallStyle::hermes, ToolCallStyle::llama3}) {
      const std::string whole = parse(with(style), std::vector{text});
      EXPECT_EQ(parse(with(style), parts), whole) << text;
      // Content is a part of the text, in order.
      ToolCallParser parser(with(style));
      auto deltas = parser.push(text);
      for (auto &delta : parser.finish()) deltas.push_back(std::move(delta));
      size_t at = 0;
      std::string content;
      for (const auto &delta : deltas) {
        const auto *part = std::get_if<ContentDelta>(&delta);
        if (part == nullptr) continue;
        at = text.find(part->text, at);
        ASSERT_NE(at, std::string::npos) << text;
        at += part->text.size();
        content += part->text;
      }
      EXPECT_TRUE(parser.n_calls() > 0 || content == text) << text;
    }
  }
}

}  // namespace
}  // namespace patchbay
