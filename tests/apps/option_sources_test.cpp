#include "apps/option_sources.h"

#include <gmock/gmock.h>

#include <fstream>
#include <stdexcept>

#include "base/error.h"
#include "base/temp_dir.h"

namespace patchbay {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::vector<OptionInfo> k_options{
    {.name = "port"},
    {.name = "n-predict", .aliases = {"predict"}},
    {.name = "ctx-size", .rivals = {"kv-memory"}},
    {.name = "kv-memory", .rivals = {"ctx-size"}},
    {.name = "lora", .is_list = true},
    {.name = "metrics", .is_flag = true, .rivals = {"no-metrics"}},
    {.name = "no-metrics", .is_flag = true, .rivals = {"metrics"}},
    {.name = "log-prompts", .is_flag = true}};

std::vector<SourcedOption> from_environment(const std::map<std::string, std::string> &variables) {
  return options_of_environment(k_options, [&](const std::string &name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

std::vector<std::string> chosen(const std::set<std::string> &given,
                                const std::map<std::string, std::string> &variables,
                                const ConfigValues &file) {
  return arguments_of(choose_options(
      k_options, given, {from_environment(variables), options_of_file(k_options, "f", file)}));
}

TEST(OptionSources, FlagsStandAboveTheEnvironmentAndThatAboveTheFile) {
  EXPECT_THAT(chosen({}, {}, {{"port", {"1"}}}), ElementsAre("--port=1"));
  EXPECT_THAT(chosen({}, {{"LLAMA_ARG_PORT", "2"}}, {{"port", {"1"}}}), ElementsAre("--port=2"));
  EXPECT_THAT(chosen({}, {{"LLAMA_ARG_PORT", "2"}, {"PATCHBAY_PORT", "3"}}, {}),
              ElementsAre("--port=3"));
  EXPECT_THAT(chosen({"port"}, {{"PATCHBAY_PORT", "3"}}, {{"port", {"1"}}}), IsEmpty());
  EXPECT_THAT(chosen({}, {{"PATCHBAY_PORT", ""}}, {{"port", {"1"}}}), ElementsAre("--port=1"));
}

TEST(OptionSources, AListIsReplacedAndNotAddedTo) {
  EXPECT_THAT(chosen({}, {}, {{"lora", {"a", "b"}}}), ElementsAre("--lora=a", "--lora=b"));
  EXPECT_THAT(chosen({}, {{"PATCHBAY_LORA", "c"}}, {{"lora", {"a", "b"}}}),
              ElementsAre("--lora=c"));
}

TEST(OptionSources, WhatRulesAnOptionOutStandsAboveItToo) {
  EXPECT_THAT(chosen({"ctx-size"}, {}, {{"kv-memory", {"1G"}}}), IsEmpty());
  EXPECT_THAT(chosen({"no-metrics"}, {{"LLAMA_ARG_ENDPOINT_METRICS", "1"}}, {}), IsEmpty());
  EXPECT_THAT(chosen({}, {{"PATCHBAY_NO_METRICS", "on"}}, {{"metrics", {"true"}}}),
              ElementsAre("--no-metrics"));
}

TEST(OptionSources, AFlagIsTrueOrFalse) {
  EXPECT_THAT(chosen({}, {}, {{"metrics", {"false"}}}), ElementsAre("--no-metrics"));
  EXPECT_THAT(chosen({}, {}, {{"log-prompts", {"true"}}}), ElementsAre("--log-prompts"));
  EXPECT_THAT(chosen({}, {{"PATCHBAY_LOG_PROMPTS", "no"}}, {{"log-prompts", {"true"}}}), IsEmpty());
  EXPECT_THROW((void)from_environment({{"PATCHBAY_LOG_PROMPTS", "maybe"}}), std::invalid_argument);
}

TEST(OptionSources, OtherNamesOfAnOptionAreTheOption) {
  EXPECT_THAT(chosen({}, {{"LLAMA_ARG_N_PREDICT", "7"}}, {{"predict", {"8"}}}),
              ElementsAre("--n-predict=7"));
}

TEST(OptionSources, WhatAFileMayNotSayIsNamed) {
  const auto error_of = [](const ConfigValues &values) -> std::string {
    try {
      (void)options_of_file(k_options, "some.toml", values);
    } catch (const LoadError &error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(error_of({{"prot", {"1"}}}), "some.toml: prot is no option");
  EXPECT_EQ(error_of({{"config", {"x"}}}), "some.toml: config is no option");
  EXPECT_EQ(error_of({{"metrics", {"7"}}}), "some.toml: metrics must be true or false");
  EXPECT_EQ(error_of({{"port", {"1", "2"}}}), "some.toml: port takes one value");
  EXPECT_EQ(error_of({{"port", {""}}}), "some.toml: port is empty");
}

TEST(ConfigFile, IsTomlOrJson) {
  const TempDir dir;
  const auto read = [&](const std::string &text) { return read_config_file(dir.write("c", text)); };
  const ConfigValues wanted{{"lora", {"a", "b"}}, {"metrics", {"true"}}, {"port", {"8080"}}};
  EXPECT_EQ(read("port = 8080\nmetrics = true\nlora = ['a', \"b\"]"), wanted);
  EXPECT_EQ(read(R"( {"port": 8080, "metrics": true, "lora": ["a", "b"]})"), wanted);
  EXPECT_EQ(read(""), ConfigValues{});
  for (const char *wrong :
       {"{", "{\"a\": {}}", "{\"a\": [[]]}", "{\"a\": null}", "[a]", "x", "a = b"})
    EXPECT_THROW((void)read(wrong), LoadError) << wrong;
  EXPECT_THROW((void)read_config_file("/none/such"), LoadError);
  EXPECT_THROW((void)read_config_file("/"), LoadError);
}

}  // namespace
}  // namespace patchbay
