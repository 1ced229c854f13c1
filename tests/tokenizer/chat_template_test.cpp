#include "tokenizer/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace patchbay {
namespace {

using nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Expected<std::string> render(std::string_view source, const ordered_json &messages = {},
                             const ordered_json &context = ordered_json::object()) {
  const auto chat_template = ChatTemplate::parse(source, "model.gguf", "tokenizer.chat_template");
  return chat_template.render(
      {.messages = messages, .tools = nullptr, .context = context, .now = {}});
}

std::string text_of(std::string_view source, const ordered_json &messages = {},
                    const ordered_json &context = ordered_json::object()) {
  const auto text = render(source, messages, context);
  return text ? *text : "refused: " + text.error().message;
}

std::string refusal(std::string_view source, const ordered_json &messages = {}) {
  const auto text = render(source, messages);
  EXPECT_FALSE(text) << source;
  if (text) return {};
  EXPECT_EQ(text.error().code, ErrorCode::invalid_argument);
  return text.error().message;
}

const ordered_json k_messages = {{{"role", "user"}, {"content", "Hi"}},
                                 {{"role", "assistant"}, {"content", "Hello"}}};

TEST(ChatTemplate, MessagesBecomeText) {
  EXPECT_EQ(text_of("{% for m in messages %}<{{ m.role }}>{{ m['content'] }}\n{% endfor %}"
                    "{% if add_generation_prompt %}<assistant>{% endif %}",
                    k_messages, {{"add_generation_prompt", true}}),
            "<user>Hi\n<assistant>Hello\n<assistant>");
}

TEST(ChatTemplate, WhatTheCallerLeavesOutIsNotUndefined) {
  EXPECT_EQ(text_of("{{ tools is none }} {{ documents is none }} {{ add_generation_prompt }} "
                    "{{ bos_token is defined }}"),
            "True True False False");
}

TEST(ChatTemplate, VariablesOfTheCallerReplaceWhatTheLanguageKnows) {
  EXPECT_EQ(text_of("{{ range }}", {}, {{"range", "mine"}}), "mine");
}

TEST(ChatTemplate, OneTemplateRendersManyTimes) {
  const auto chat_template = ChatTemplate::parse(
      "{% set ns = namespace(n=0) %}{% for m in messages %}"
      "{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}",
      "file", "");
  const ordered_json none = ordered_json::array();
  const ordered_json context = ordered_json::object();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(*chat_template.render(
                  {.messages = k_messages, .tools = nullptr, .context = context, .now = {}}),
              "2");
    EXPECT_EQ(
        *chat_template.render({.messages = none, .tools = nullptr, .context = context, .now = {}}),
        "0");
  }
}

TEST(ChatTemplate, WordsOfRaiseExceptionComeBackAsTheyAre) {
  EXPECT_EQ(
      refusal("a{{ raise_exception('Roles must alternate: ' ~ messages|length) }}", k_messages),
      "Roles must alternate: 2");
}

TEST(ChatTemplate, OtherErrorsSayTheirLine) {
  EXPECT_EQ(refusal("\n\n{{ messages.nope.deeper }}", k_messages),
            "chat template, line 3: 'list object' has no attribute 'nope'");
  EXPECT_EQ(refusal("{{ nope + 1 }}"), "chat template, line 1: 'nope' is undefined");
  EXPECT_EQ(refusal("{{ 'a' + 1 }}"),
            "chat template, line 1: unsupported operand type(s) for +: 'str' and 'int'");
}

TEST(ChatTemplate, TemplateThatCannotBeReadIsALoadErrorWithPlaceAndLine) {
  try {
    (void)ChatTemplate::parse("a\n{% if %}", "model.gguf", "tokenizer.chat_template");
    FAIL();
  } catch (const LoadError &error) {
    EXPECT_THAT(error.what(),
                AllOf(StartsWith("model.gguf: tokenizer.chat_template cannot be read, line 2: "),
                      EndsWith("got 'end of statement block'")));
  }
  EXPECT_THROW((void)ChatTemplate::parse("\xFF", "f", "i"), LoadError);
}

TEST(ChatTemplate, SandboxHidesWhatWouldChangeOrLeaveIt) {
  EXPECT_EQ(
      text_of("{{ messages.append }}|{{ messages.__class__ }}|{{ ''.__class__ }}", k_messages),
      "||");
  EXPECT_THAT(refusal("{{ messages.append(1) }}", k_messages), HasSubstr("unsafe"));
  EXPECT_THAT(refusal("{{ {}.update({}) }}"), HasSubstr("unsafe"));
  EXPECT_THAT(refusal("{{ ''.__class__.__mro__ }}"), HasSubstr("unsafe"));
  EXPECT_THAT(refusal("{% set ns = namespace(_a=1) %}"), HasSubstr("underscore"));
  EXPECT_THAT(refusal("{% set a = {} %}{% set a.b = 1 %}"), HasSubstr("non-namespace"));
}

TEST(ChatTemplate, NamespaceReplacedByItsOwnAssignmentIsRefused) {
  EXPECT_THAT(refusal("{% set ns = namespace() %}{% set ns, ns.a = 1, 2 %}"),
              HasSubstr("non-namespace"));
}

// Each comes close to the ends of 128 bits on a way of its own.
TEST(ChatTemplate, ExtremeIntegersNeverOverflow) {
  const std::string lowest = "(-(2 ** 126) - 2 ** 126)";
  const std::string highest = "(2 ** 126 - 1 + 2 ** 126)";
  for (const std::string &n : {lowest, highest}) {
    for (const std::string_view use : {"N + N",
                                       "N - 1 - N - N",
                                       "N * N",
                                       "-N",
                                       "N|abs",
                                       "N // -1",
                                       "N % -1",
                                       "N|round(N)",
                                       "1.5|round(N)",
                                       "'a'.center(N)",
                                       "'a'.zfill(N)",
                                       "'a'.ljust(N)",
                                       "'a\tb'.expandtabs(N)",
                                       "'%*d' % (N, 1)",
                                       "'%.*f' % (N, 1.5)",
                                       "'a b c'|truncate(N, true, '', N)",
                                       "'a'|indent(N)",
                                       "range(N)",
                                       "range(0, N, N)",
                                       "range(N, -N, N)",
                                       "range(9)[N:N:N]",
                                       "'abc'[N:N:N]",
                                       "[1, 2][N::N]",
                                       "[1, 2][N]",
                                       "'ab'[N]",
                                       "'a' * N",
                                       "[1]|batch(N, 1)|list",
                                       "[1]|slice(N)|list",
                                       "'abc'.find('b', N, N)",
                                       "[1].index(1, N, N)",
                                       "'a b'.split(' ', N)",
                                       "[1]|tojson(indent=N)",
                                       "'%d %x %o' % (N, N, N)",
                                       "'{:,} {:x}'.format(N, N)",
                                       "N == 1.5",
                                       "N < 1e300",
                                       "N|float",
                                       "N ** 2",
                                       "N / 3",
                                       "cycler(1).next(N)",
                                       "N.bit_length()"}) {
      std::string source = "{{ " + std::string(use) + " }}";
      for (size_t at = source.find('N'); at != std::string::npos; at = source.find('N', at)) {
        source.replace(at, 1, n);
      }
      (void)render(source);  // the sanitizer says what is wrong
    }
  }
  EXPECT_EQ(text_of("{{ " + lowest + " }}"), "-170141183460469231731687303715884105728");
}

TEST(ChatTemplate, WhatWouldNotEndIsRefused) {
  EXPECT_THAT(refusal("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"), HasSubstr("recursion"));
  EXPECT_THAT(refusal("{% for a in [[1]] recursive %}{{ loop([[1]]) }}{% endfor %}"),
              HasSubstr("recursion"));
  EXPECT_THAT(refusal("{% for a in range(99999) %}{% for b in range(99999) %}"
                      "{% endfor %}{% endfor %}"),
              HasSubstr("steps"));
  EXPECT_THAT(refusal("{{ range(99999)|map('list')|list }}{{ range(100001) }}"),
              HasSubstr("not iterable"));
  EXPECT_THAT(refusal("{{ range(100001) }}"), HasSubstr("Range too big"));
}

TEST(ChatTemplate, WhatWouldFillTheMemoryIsRefused) {
  for (const std::string_view source :
       {"{{ 'x' * 10**12 }}", "{{ [1] * 10**12 }}", "{{ 'x'.center(10**12) }}",
        "{{ '%999999999d' % 1 }}", "{{ '{:999999999}'.format(1) }}",
        "{{ 'x'|indent(10**12, true) }}", "{{ ('a' * 99999)|replace('', 'b' * 99999) }}",
        "{{ range(99999)|join('x' * 99999) }}", "{{ [1]|batch(10**12, 1)|list }}",
        "{{ [1]|tojson(indent=10**12) }}"}) {
    EXPECT_THAT(refusal(source), HasSubstr("larger than 128 MiB")) << source;
  }
  EXPECT_THAT(refusal("{% set x = 'x' * 1000000 %}{% for a in range(99) %}{{ x }}{% endfor %}"),
              HasSubstr("longer than 64 MiB"));
  EXPECT_THAT(refusal("{% for a in range(2000) %}{% set x = 'x' * 1000000 %}{% endfor %}"),
              HasSubstr("1024 MiB of values"));
}

TEST(ChatTemplate, DepthOfValuesIsBounded) {
  const std::string deeper =
      "{% set ns = namespace(a=1) %}{% for i in range(999) %}{% set ns.a = NEXT %}{% endfor %}";
  const auto growing = [&](std::string_view next) {
    std::string source = deeper;
    return source.replace(source.find("NEXT"), 4, next);
  };
  EXPECT_THAT(refusal(growing("[ns.a]")), HasSubstr("400 levels"));
  EXPECT_THAT(refusal(growing("{'a': ns.a}")), HasSubstr("400 levels"));
  EXPECT_THAT(refusal(growing("[1]|map('default', ns.a)")), HasSubstr("400 levels"));
  ordered_json nested = 1;
  for (int i = 0; i < 1000; ++i) nested = ordered_json::array({nested});
  EXPECT_THAT(refusal("a", nested), HasSubstr("400 levels"));
}

// Leaks are LeakSanitizer's to find.
TEST(ChatTemplate, ValuesThatHoldThemselvesAreGivenBack) {
  EXPECT_EQ(text_of("{% set ns = namespace() %}{% set ns.ns = [ns] %}"
                    "{% macro m() %}{{ caller }}{% macro inner() %}{{ m }}{% endmacro %}"
                    "{% set ns.inner = inner %}{% endmacro %}{{ m() }}{{ m() }}"
                    "{% for a in [1, 2] %}{{ loop.changed(loop) }}{% set ns.l = loop.cycle %}"
                    "{% endfor %}"),
            "TrueFalse");
  EXPECT_THAT(refusal("{% macro m() %}{% set me = m %}{{ nope.nope }}{% endmacro %}{{ m() }}"),
              HasSubstr("undefined"));
}

TEST(ChatTemplate, VariablesMustBeAnObject) {
  const auto text = render("a", {}, ordered_json::array());
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code, ErrorCode::invalid_argument);
}

TEST(ChatTemplate, TextThatIsNotUtf8IsRefused) {
  EXPECT_THAT(refusal("{{ messages }}", ordered_json("\xFF")), HasSubstr("UTF-8"));
}

TEST(ChatTemplate, RandomFunctionsAreRefused) {
  EXPECT_THAT(refusal("{{ lipsum() }}"), HasSubstr("not supported"));
  EXPECT_THAT(refusal("{{ ''.strip }}"), HasSubstr("has no text that is the same each time"));
  EXPECT_THROW((void)ChatTemplate::parse("{{ messages|random }}", "f", "i"), LoadError);
}

TEST(ChatTemplate, IntegersAreExactUpTo128Bits) {
  EXPECT_EQ(text_of("{{ messages[0] * 2 }} {{ messages|tojson }}",
                    ordered_json::array({18446744073709551615ULL})),
            "36893488147419103230 [18446744073709551615]");
  EXPECT_THAT(refusal("{{ 2 ** 127 }}"), HasSubstr("128 bits"));
}

// A name belongs to the scope that assigns to it, wherever in it that happens.
TEST(ChatTemplate, ScopesAreJinjas) {
  EXPECT_EQ(text_of("{% set a = 1 %}{% for i in [1, 2] %}{{ a }}{% set a = 5 %}{{ a }}{% endfor %}"
                    "{{ a }}"),
            "15151");
  EXPECT_EQ(text_of("{% macro m() %}[{{ x }}]{% endmacro %}{{ m() }}{% set x = 2 %}{{ m() }}", {},
                    {{"x", 1}}),
            "[][2]");
  EXPECT_EQ(text_of("{% if no %}{% set x = 2 %}{% endif %}{{ x }}", {}, {{"x", 1}}), "1");
}

}  // namespace
}  // namespace patchbay
