#include "apps/command_line.h"

#include <fmt/format.h>

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "apps/chat_options.h"
#include "apps/cli_values.h"
#include "apps/commands.h"
#include "apps/extract_options.h"
#include "apps/input_text.h"
#include "apps/llama_flags.h"
#include "apps/merge_options.h"
#include "apps/model_options.h"
#include "apps/option_table.h"
#include "apps/serve_options.h"
#include "base/log.h"
#include "kv/kv_sizes.h"

namespace patchbay {
namespace {

constexpr float k_huge = 1e6F;

void add_logit_bias(CLI::App &app, SamplingParams &sampling) {
  const std::string names = "--logit-bias";
  app.add_option_function<std::vector<std::string>>(
         names,
         [&sampling, names](const std::vector<std::string> &items) {
           for (const auto &item : items) {
             const size_t equals = item.find('=');
             if (equals == std::string::npos)
               throw CLI::ValidationError(names, fmt::format("'{}' is not TOKEN=BIAS", item));
             const auto token = parse_named_number<int32_t>(names, item.substr(0, equals), 0,
                                                            std::numeric_limits<int32_t>::max());
             const std::string bias = item.substr(equals + 1);
             sampling.logit_bias.emplace_back(
                 token, bias == "-inf" ? -std::numeric_limits<float>::infinity()
                                       : parse_named_number<float>(names, bias, -k_huge, k_huge));
           }
         },
         "adds BIAS to the logit of token id TOKEN; -inf forbids it; repeatable")
      ->type_name("TOKEN=BIAS")
      ->type_size(1)
      ->allow_extra_args(false);
}

void add_sampling_options(CLI::App &app, SamplingParams &sampling, std::optional<uint64_t> &seed) {
  number(app, "--temp,--temperature", sampling.temperature, 0.0F, k_huge,
         "temperature; 0 takes the best token");
  number(app, "--top-k", sampling.top_k, 0, std::numeric_limits<int32_t>::max(),
         "keep the K best tokens; 0: all");
  number(app, "--top-p", sampling.top_p, 0.0F, 1.0F,
         "keep the best tokens up to this probability; 1: all");
  number(app, "--min-p", sampling.min_p, 0.0F, 1.0F,
         "drop tokens less likely than this part of the best; 0: none");
  number(app, "--repeat-penalty", sampling.repeat_penalty, 1 / k_huge, k_huge,
         "divides logits of recent tokens; 1: off");
  number(app, "--presence-penalty", sampling.presence_penalty, -k_huge, k_huge,
         "lowers logits of recent tokens");
  number(app, "--frequency-penalty", sampling.frequency_penalty, -k_huge, k_huge,
         "the same per occurrence");
  number(app, "--repeat-last-n", sampling.n_penalty_last, -1, std::numeric_limits<int32_t>::max(),
         "tokens that the penalties look back at; -1: all");
  add_logit_bias(app, sampling);
  app.add_option_function<std::string>(
         "-s,--seed",
         [&seed](const std::string &text) {
           seed = parse_named_number<uint64_t>("-s,--seed", text, 0,
                                               std::numeric_limits<uint64_t>::max());
         },
         "random seed")
      ->type_name("N")
      ->default_str("random");
}

std::vector<int32_t> parse_tokens(const std::string &list) {
  std::vector<int32_t> tokens;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    tokens.push_back(parse_named_number<int32_t>("--tokens", list.substr(begin, end - begin), 0,
                                                 std::numeric_limits<int32_t>::max()));
    begin = end + 1;
  }
  return tokens;
}

void add_grammar_options(CLI::App &app, GenerateOptions &generate) {
  CLI::App *group = app.add_option_group("form", "what the answer has to be of");
  const auto add = [group](const std::string &name, std::string &target, const std::string &what) {
    group->add_option(name, target, what)
        ->check([name](const std::string &text) { return text.empty() ? name + " is empty" : ""; })
        ->type_name("TEXT");
    group
        ->add_option_function<std::string>(
            name + "-file",
            [&target, name](const std::string &path) {
              target = read_input_text(path);
              if (target.empty()) throw CLI::ValidationError(name + "-file", path + " is empty");
            },
            "the same from a file; - is standard input")
        ->check(check_not_empty)
        ->type_name("FILE");
  };
  add("--grammar", generate.grammar, "a grammar in GBNF");
  add("--json-schema", generate.json_schema,
      "a JSON schema; {\"type\": \"object\"} for any JSON object");
  group->require_option(0, 1);
}

void add_answer_options(CLI::App &app, GenerateOptions &generate) {
  number(app, "-n,--n-predict", generate.n_predict, -1, std::numeric_limits<int32_t>::max(),
         "tokens to generate at most; -1: until the context is full");
  app.add_option("--stop", generate.stop, "end before this text; repeatable")
      ->type_name("TEXT")
      ->type_size(1)
      ->allow_extra_args(false);
  app.add_flag("--ignore-eos", generate.ignore_eos, "never draw an end-of-generation token");
}

void add_run(CLI::App &app, RunArguments &arguments) {
  CLI::App *run_app = app.add_subcommand("run", "generate text from a prompt, with any adapters");
  add_model_options(*run_app, arguments.model);
  run_app->footer(
      "Text is continued as it stands: a chat template's tokens are part of the prompt.\n"
      "patchbay run -p \"Once upon a time\" -n 32 --temp 0\n"
      "patchbay run -f prompt.txt --lora pirate=adapters/pirate:0.5,json=adapters/json:0.5");
  auto *input = run_app->add_option_group("input", "the text to continue");
  input->add_option("-p,--prompt", arguments.prompt, "prompt; special tokens may be written out")
      ->type_name("TEXT");
  input
      ->add_option_function<std::string>(
          "-f,--file",
          [&arguments](const std::string &path) { arguments.prompt = read_input_text(path); },
          "prompt from a file; - is standard input")
      ->type_name("FILE");
  input
      ->add_option_function<std::string>(
          "--tokens",
          [&arguments](const std::string &list) { arguments.tokens = parse_tokens(list); },
          "token ids in place of a prompt, 1,2,3")
      ->type_name("IDS");
  input->require_option(1);
  number(*run_app, "-c,--ctx-size", arguments.model.engine.n_ctx, 1U, k_max_kv_tokens,
         "tokens that the KV cache holds, at most the model's context")
      ->default_str("as needed");
  run_app
      ->add_option_function<std::string>(
          "--kv-memory",
          [&arguments](const std::string &text) {
            arguments.model.engine.kv_memory_bytes = parse_bytes("--kv-memory", text);
          },
          "the most memory for the KV cache, in bytes or as 64M or 2G, in place of -c")
      ->excludes("--ctx-size")
      ->type_name("SIZE");
  add_answer_options(*run_app, arguments.generate);
  add_grammar_options(*run_app, arguments.generate);
  add_sampling_options(*run_app, arguments.generate.sampling, arguments.seed);
  run_app
      ->add_option("--logits", arguments.logits_path,
                   "write the prompt's logits, F32 [n_tokens, n_vocab], as .npy")
      ->check(check_not_empty)
      ->type_name("FILE");
  run_app
      ->add_option("--save-session", arguments.save_session,
                   "keep what was computed of prompt and answer in a file, for --restore-session")
      ->check(check_not_empty)
      ->type_name("FILE");
  run_app
      ->add_option("--restore-session", arguments.restore_session,
                   "compute only what follows on a saved session that the prompt begins with")
      ->check(check_not_empty)
      ->type_name("FILE");
  run_app->add_flag("--json", arguments.json,
                    "print one JSON object at the end instead of streaming text");
  run_app->add_flag("-q,--quiet", arguments.quiet, "no timings on standard error");
}

void add_chat(CLI::App &app, ChatCommandArguments &arguments) {
  CLI::App *chat_app = app.add_subcommand("chat", "talk with a model, with any adapters");
  add_model_options(*chat_app, arguments.model);
  chat_app->footer(
      "Lines of a terminal, or of standard input, are messages; /help shows the commands.\n"
      "patchbay chat --lora pirate=adapters/pirate\n"
      "printf '/compare Tell me about the sea.\\n' | patchbay chat --lora pirate=adapters/pirate");
  chat_app->add_option("--system", arguments.system, "what the model is told first")
      ->type_name("TEXT");
  add_chat_options(*chat_app, arguments.chat);
  number(*chat_app, "-c,--ctx-size", arguments.model.engine.n_ctx, 1U, k_max_kv_tokens,
         "tokens that the KV cache holds")
      ->default_str("the model's context, at most 4096");
  arguments.generate.n_predict = -1;
  add_answer_options(*chat_app, arguments.generate);
  add_grammar_options(*chat_app, arguments.generate);
  add_sampling_options(*chat_app, arguments.generate.sampling, arguments.seed);
}

void add_tokenize(CLI::App &app, TokenizeArguments &arguments) {
  CLI::App *tokenize_app = app.add_subcommand("tokenize", "show the tokens of a text");
  tokenize_app
      ->add_option("-m,--model", arguments.model,
                   "model whose tokenizer to use; without it the default model")
      ->check(check_not_empty)
      ->type_name("FILE");
  tokenize_app->add_option("-p,--prompt", arguments.text, "the text; without it standard input")
      ->type_name("TEXT");
  switch_off(*tokenize_app, "--no-special", arguments.add_special, "add no BOS or EOS");
  switch_off(*tokenize_app, "--no-parse-special", arguments.parse_special,
             "take special tokens in the text as plain text");
  tokenize_app->add_flag("--pieces", arguments.pieces, "show the text of each token");
  tokenize_app->add_flag("--json", arguments.json, "print JSON");
}

void add_inspect(CLI::App &app, InspectArguments &arguments) {
  CLI::App *inspect_app = app.add_subcommand("inspect", "show what is in a model or adapter");
  inspect_app->add_option("file", arguments.path, "GGUF model, GGUF adapter or PEFT folder")
      ->required()
      ->check(check_not_empty)
      ->type_name("FILE");
  inspect_app->add_option("-b,--base", arguments.base, "check an adapter against this base model")
      ->check(check_not_empty)
      ->type_name("FILE");
  add_adapter_load_options(*inspect_app, arguments.adapters);
  inspect_app
      ->add_option("--plot", arguments.plot,
                   "draw how far an adapter moves each weight of --base, layer by module, as .png "
                   "or .svg")
      ->check(check_not_empty)
      ->type_name("FILE");
  inspect_app->add_flag("--tensors", arguments.tensors,
                        "list every tensor, with --base also how far each is moved");
  inspect_app->add_flag("--json", arguments.json, "print JSON");
}

void add_convert(CLI::App &app, ConvertArguments &arguments) {
  CLI::App *convert_app =
      app.add_subcommand("convert", "make a GGUF adapter of a PEFT folder, or the other way round");
  convert_app->footer(
      "Of a Hugging Face folder only the config.json is read, of a GGUF base no weight but those "
      "that DoRA's lengths and new numbers are compared with.\n"
      "patchbay convert adapters/pirate -o pirate.gguf --base model.gguf\n"
      "patchbay convert pirate.gguf -o adapters/pirate --reverse --base model.gguf");
  convert_app->add_option("adapter", arguments.path, "PEFT folder or GGUF adapter")
      ->required()
      ->check(check_not_empty)
      ->type_name("ADAPTER");
  auto *output = convert_app
                     ->add_option("-o,--output", arguments.output,
                                  "GGUF file to write; with --reverse a folder")
                     ->check(check_not_empty)
                     ->type_name("FILE");
  convert_app
      ->add_option("-b,--base", arguments.base,
                   "base model: GGUF file or Hugging Face folder; without it the folder that the "
                   "adapter names, if there is one")
      ->check(check_not_empty)
      ->type_name("PATH");
  add_adapter_load_options(*convert_app, arguments.adapters);
  choice<ggml_type>(*convert_app, "--type",
                    {{"f32", GGML_TYPE_F32},
                     {"f16", GGML_TYPE_F16},
                     {"bf16", GGML_TYPE_BF16},
                     {"q8_0", GGML_TYPE_Q8_0}},
                    arguments.type, "type of the factors: f32, f16, bf16 or q8_0")
      ->default_str("as they are");
  auto *reverse = convert_app->add_flag("--reverse", arguments.reverse, "write a PEFT folder");
  reverse->excludes("--type");
  convert_app->add_flag("--force", arguments.overwrite, "replace what is there");
  auto *dry_run =
      convert_app->add_flag("--dry-run", arguments.dry_run, "check everything and write nothing");
  convert_app->add_flag("--json", arguments.json, "print JSON");
  convert_app->callback([output, dry_run] {
    if (output->count() == 0 && dry_run->count() == 0) throw CLI::RequiredError("--output");
  });
}

void add_bench(CLI::App &app, BenchArguments &arguments) {
  CLI::App *bench_app = app.add_subcommand("bench", "measure prefill and decode speed");
  add_model_options(*bench_app, arguments.model);
  number(*bench_app, "-p,--n-prompt", arguments.n_prompt, 1U, 1U << 20U,
         "prompt tokens to prefill");
  number(*bench_app, "-n,--n-gen", arguments.n_gen, 1U, 1U << 20U, "tokens to decode per stream");
  number(*bench_app, "-r,--repeat", arguments.n_repeat, 1U, 1000U,
         "measurements; the median is shown");
  number(*bench_app, "--streams", arguments.n_streams, 1U, 512U, "sequences decoded side by side");
  number(*bench_app, "--n-adapters", arguments.n_adapters, 0U, 4096U,
         "random adapters, dealt to the streams in turn");
  number(*bench_app, "--rank", arguments.n_rank, 1U, 1024U, "their rank");
  bench_app->add_flag("--against-base", arguments.against_base,
                      "measure the base in turns with the adapters and print the ratio");
  bench_app->add_flag("--json", arguments.json, "print JSON");
}

/// What all commands are told.
struct AllArguments {
  bool verbose = false;
  RunArguments run;
  ChatCommandArguments chat;
  TokenizeArguments tokenize;
  InspectArguments inspect;
  ConvertArguments convert;
  MergeArguments merge;
  ExtractArguments extract;
  BenchArguments bench;
  ServeArguments serve;
};

/// The whole command line as CLI11 knows it; it fills `arguments` when it parses.
struct Parser {
  explicit Parser(AllArguments &arguments)
      : app("Patchbay: one GGUF base model, any number of LoRA adapters", "patchbay") {
    app.set_version_flag("--version", "patchbay " PATCHBAY_VERSION);
    app.set_help_flag("-h,--help", "show this help");
    app.require_subcommand(1);
    app.fallthrough();
    app.footer("patchbay COMMAND --help shows the options of a command.");
    app.add_flag("-v,--verbose", arguments.verbose, "say more on standard error");
    add_run(app, arguments.run);
    add_chat(app, arguments.chat);
    add_tokenize(app, arguments.tokenize);
    add_inspect(app, arguments.inspect);
    add_convert(app, arguments.convert);
    add_merge(app, arguments.merge);
    add_extract(app, arguments.extract);
    add_bench(app, arguments.bench);
    serve = add_serve(app, arguments.serve);
  }

  void parse(std::vector<std::string> words) {
    std::ranges::reverse(words);  // as CLI11 wants them
    app.parse(std::move(words));
  }

  CLI::App app;
  CLI::App *serve = nullptr;
};

/// Names of all variables.
std::vector<std::string> environment_names() {
  std::vector<std::string> names;
  for (char **entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    names.emplace_back(text.substr(0, text.find('=')));
  }
  return names;
}

/// The words of a `serve` with what the environment and a configuration file add to them.
std::vector<std::string> with_other_sources(std::vector<std::string> words) {
  AllArguments seen;
  Parser parser(seen);
  try {
    parser.parse(words);
  } catch (const CLI::Success & /*asked*/) {
    return words;  // help is shown by whoever parses them next
  }
  if (!parser.app.got_subcommand("serve")) return words;
  const auto options = options_of(*parser.serve);
  auto environment = options_of_environment(options, [](const std::string &name) {
    const char *value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  });
  std::string path = seen.serve.config;
  for (const auto &one : environment) {
    if (one.name == "config" && path.empty()) path = one.values.front();
  }
  std::vector<std::vector<SourcedOption>> sources{std::move(environment)};
  if (!path.empty()) sources.push_back(options_of_file(options, path, read_config_file(path)));
  const auto chosen = choose_options(options, given_options(*parser.serve), sources);
  check_options(chosen, [&](const std::vector<std::string> &more) {
    AllArguments ignored;
    std::vector<std::string> all{"serve"};
    all.insert(all.end(), more.begin(), more.end());
    Parser(ignored).parse(all);
  });
  for (auto &argument : arguments_of(chosen)) words.push_back(std::move(argument));
  return words;
}

CommandLine command_of(const AllArguments &all, const Parser &parser) {
  const CLI::App &app = parser.app;
  if (app.got_subcommand("run")) return {.command = [a = all.run] { return run(a); }};
  if (app.got_subcommand("chat")) return {.command = [a = all.chat] { return chat(a); }};
  if (app.got_subcommand("tokenize"))
    return {.command = [a = all.tokenize] { return tokenize(a); }};
  if (app.got_subcommand("inspect")) return {.command = [a = all.inspect] { return inspect(a); }};
  if (app.got_subcommand("convert")) return {.command = [a = all.convert] { return convert(a); }};
  if (app.got_subcommand("merge")) return {.command = [a = all.merge] { return merge(a); }};
  if (app.got_subcommand("extract")) return {.command = [a = all.extract] { return extract(a); }};
  if (app.got_subcommand("bench")) return {.command = [a = all.bench] { return bench(a); }};
  if (all.serve.print_config) {
    return {.command = [text = config_text(*parser.serve)] {
      std::fputs(text.c_str(), stdout);
      return 0;
    }};
  }
  return {.command = [a = all.serve] { return serve(a); }};
}

}  // namespace

CommandLine parse_command_line(int argc, char **argv) {
  AllArguments arguments;
  Parser parser(arguments);
  std::vector<std::string> words(argv + 1, argv + argc);
  try {
    if (std::ranges::find(words, "serve") != words.end())
      words = with_other_sources(spell_out_short_flags(std::move(words)));
    parser.parse(words);
    name_loras(arguments.run.model.loras);
    name_loras(arguments.chat.model.loras);
    name_loras(arguments.bench.model.loras);
    name_loras(arguments.merge.loras);
    if (parser.app.got_subcommand("serve")) {
      for (const auto &name : unknown_variables(options_of(*parser.serve), environment_names()))
        arguments.serve.warnings.push_back(name + " is no option's variable and has no effect");
    }
  } catch (const CLI::Success &asked) {
    return {.command = nullptr, .exit_code = parser.app.exit(asked)};
  } catch (const CLI::ParseError &error) {
    const CLI::App &app = parser.app;
    if (app.get_subcommands().empty() && !app.remaining().empty())
      throw UsageError(
          fmt::format("'{}' is no command or option: see --help", app.remaining().front()));
    app.exit(error);
    return {.command = nullptr, .exit_code = k_exit_usage};
  } catch (const std::invalid_argument &error) {
    throw UsageError(error.what());
  }
  if (arguments.verbose) log().set_level(spdlog::level::debug);
  return command_of(arguments, parser);
}

}  // namespace patchbay
