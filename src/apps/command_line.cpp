#include "apps/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "apps/commands.h"
#include "apps/input_text.h"
#include "base/log.h"
#include "kv/kv_sizes.h"

namespace patchbay {
namespace {

/// All of `text` as a number of type T within [low, high]; CLI11's own conversions let -1 and 2^64
/// through for unsigned types and nan for floats.
template <class T>
T parse_number(const std::string &text, T low, T high) {
  T value{};
  const bool has_plus = text.starts_with('+') && !text.starts_with("+-");
  const char *begin = text.data() + (has_plus ? 1 : 0);
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (!whole || !(value >= low && value <= high)) {
    throw CLI::ValidationError(fmt::format("'{}' is not a number from {} to {}", text, low, high));
  }
  return value;
}

/// The same for an option, which the error names.
template <class T>
T parse_named_number(const std::string &names, const std::string &text, T low, T high) {
  try {
    return parse_number<T>(text, low, high);
  } catch (const CLI::ValidationError &error) {
    throw CLI::ValidationError(names, error.what());
  }
}

/// For an option that names a file: "" is a shell variable that was not set, not the default.
std::string check_not_empty(const std::string &text) { return text.empty() ? "names no file" : ""; }

CacheType parse_cache_type(const std::string &text) {
  if (text == "f16") return CacheType::f16;
  if (text == "f32") return CacheType::f32;
  if (text == "q8_0") return CacheType::q8_0;
  throw CLI::ValidationError("--cache-type", fmt::format("'{}' is none of f16, f32, q8_0", text));
}

LoraForm parse_lora_form(const std::string &text) {
  if (text == "auto") return LoraForm::automatic;
  if (text == "portable") return LoraForm::portable;
  if (text == "fused") return LoraForm::fused;
  throw CLI::ValidationError("--lora-form",
                             fmt::format("'{}' is none of auto, portable and fused", text));
}

template <class T>
CLI::Option *number(CLI::App &app, const std::string &names, T &target, T low, T high,
                    const std::string &what) {
  return app
      .add_option_function<std::string>(
          names,
          [&target, names, low, high](const std::string &text) {
            target = parse_named_number<T>(names, text, low, high);
          },
          what)
      ->type_name("N")
      ->default_str(fmt::format("{}", target))
      ->run_callback_for_default(false);
}

/// A flag that turns `target` off. CLI11's own negated flags show as "--no-x{false}".
void switch_off(CLI::App &app, const std::string &name, bool &target, const std::string &what) {
  app.add_flag_callback(name, [&target] { target = false; }, what);
}

/// A number of bytes, with K, M or G for the powers of 1024.
size_t parse_bytes(const std::string &name, const std::string &text) {
  constexpr std::string_view k_units = "KMG";
  const size_t unit = text.empty() ? std::string::npos : k_units.find(text.back());
  const bool has_unit = unit != std::string::npos;
  const size_t factor = has_unit ? size_t{1} << (10 * (unit + 1)) : 1;
  const std::string number = has_unit ? text.substr(0, text.size() - 1) : text;
  return factor *
         parse_named_number<size_t>(name, number, 1, std::numeric_limits<size_t>::max() / factor);
}

constexpr float k_huge = 1e6F;

void add_model_options(CLI::App &app, ModelArguments &arguments) {
  app.add_option("-m,--model", arguments.model,
                 "base model, a GGUF file; without it the default model")
      ->check(check_not_empty)
      ->type_name("FILE");
  const auto add_list = [&arguments](const std::vector<std::string> &lists,
                                     bool strength_required) {
    try {
      for (const auto &list : lists) {
        const auto items = parse_lora_list(list, strength_required);
        arguments.loras.insert(arguments.loras.end(), items.begin(), items.end());
      }
    } catch (const std::invalid_argument &error) {
      throw CLI::ValidationError(strength_required ? "--lora-scaled" : "--lora", error.what());
    }
  };
  app.add_option_function<std::vector<std::string>>(
         "--lora", [add_list](const std::vector<std::string> &lists) { add_list(lists, false); },
         "adapters, [NAME=]PATH[:STRENGTH][,...]: GGUF files or PEFT folders; repeatable")
      ->type_name("LIST")
      ->type_size(1)
      ->allow_extra_args(false);
  app.add_option_function<std::vector<std::string>>(
         "--lora-scaled",
         [add_list](const std::vector<std::string> &lists) { add_list(lists, true); },
         "the same with the strength required, PATH:STRENGTH")
      ->type_name("LIST")
      ->type_size(1)
      ->allow_extra_args(false);
  number(app, "--ubatch-size,--ubatch", arguments.engine.n_ubatch, 1U, 1U << 16U,
         "tokens per step at most");
  number(app, "-t,--threads", arguments.engine.n_threads, 1U, 512U,
         "compute threads, at most one per core")
      ->default_str("one per core");
  app.add_option_function<std::string>(
         "--cache-type",
         [&arguments](const std::string &text) {
           arguments.engine.cache_type = parse_cache_type(text);
         },
         "number type of the KV cache: f16, f32 or q8_0")
      ->type_name("TYPE")
      ->default_str("f16");
  app.add_option_function<std::string>(
         "--cache-memory",
         [&arguments](const std::string &text) {
           arguments.engine.cache_memory_bytes = parse_bytes("--cache-memory", text);
         },
         "memory for computed tokens that have to leave the KV cache, in bytes or as 64M or 2G; "
         "they come back when a prompt begins with them")
      ->type_name("SIZE")
      ->default_str("none");
  app.add_option_function<std::string>(
         "--lora-form",
         [&arguments](const std::string &text) {
           arguments.engine.lora_form = parse_lora_form(text);
         },
         "how adapters are computed: auto, fused (own kernels) or portable (standard operations)")
      ->type_name("FORM")
      ->default_str("auto");
  switch_off(app, "--no-repack", arguments.repack,
             "keep weights as the file has them, mapped, instead of faster or joined copies; ggml "
             "multiplies them");
  switch_off(app, "--ggml-products", arguments.own_products,
             "multiply weights by ggml's kernels only");
}

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
  inspect_app->add_flag("--tensors", arguments.tensors, "list every tensor");
  inspect_app->add_flag("--json", arguments.json, "print JSON");
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

void add_serve(CLI::App &app, ServeArguments &arguments) {
  CLI::App *serve_app = app.add_subcommand("serve", "answer HTTP requests, each with its adapters");
  add_model_options(*serve_app, arguments.model);
  HttpOptions &http = arguments.http;
  serve_app->add_option("--host", http.host, "address to listen on")->capture_default_str();
  number<uint16_t>(*serve_app, "--port", http.port, 0, 65535, "port to listen on; 0: any free one");
  serve_app->add_option("-a,--alias", arguments.alias, "what requests call the base model")
      ->check(check_not_empty)
      ->type_name("NAME");
  serve_app
      ->add_option(
          "--lora-dir", arguments.lora_dirs,
          "folder from which adapters may be loaded over HTTP, and on first use; repeatable")
      ->type_name("DIR")
      ->type_size(1)
      ->allow_extra_args(false);
  switch_off(*serve_app, "--lora-init-without-apply", arguments.apply_adapters,
             "load the adapters of --lora at strength 0");
  number(*serve_app, "-c,--ctx-size", arguments.model.engine.n_ctx, 1U, k_max_kv_tokens,
         "tokens that the KV cache holds, shared by all requests")
      ->default_str("the model's context, at most 4096");
  number(*serve_app, "--parallel", arguments.model.engine.n_seqs_max, 1U, 4096U,
         "answers in the making at once");
  serve_app->add_option("--api-key", arguments.api_keys, "a key that may do everything; repeatable")
      ->type_name("KEY")
      ->type_size(1)
      ->allow_extra_args(false);
  serve_app
      ->add_option("--api-key-file", arguments.api_key_files,
                   "keys as JSON lines {\"key\", \"name\", \"admin\", \"adapters\", \"tenant\"}")
      ->type_name("FILE")
      ->type_size(1)
      ->allow_extra_args(false);
  auto *cert = serve_app->add_option("--ssl-cert-file", http.tls_cert_file, "certificate, PEM");
  auto *key = serve_app->add_option("--ssl-key-file", http.tls_key_file, "its private key, PEM");
  cert->needs(key)->type_name("FILE");
  key->needs(cert)->type_name("FILE");
  number(*serve_app, "--threads-http", http.n_threads, 1U, 256U, "threads for connections");
  add_chat_options(*serve_app, arguments.chat);
  add_tool_option(*serve_app, arguments.chat);
  number(*serve_app, "--drain", arguments.drain_s, 0U, 86400U,
         "seconds that running requests may go on after a signal");
}

}  // namespace

CommandLine parse_command_line(int argc, char **argv) {
  CLI::App app("Patchbay: one GGUF base model, any number of LoRA adapters", "patchbay");
  app.set_version_flag("--version", "patchbay " PATCHBAY_VERSION);
  app.set_help_flag("-h,--help", "show this help");
  app.require_subcommand(1);
  app.fallthrough();
  app.footer("patchbay COMMAND --help shows the options of a command.");
  bool verbose = false;
  app.add_flag("-v,--verbose", verbose, "say more on standard error");

  RunArguments run_arguments;
  TokenizeArguments tokenize_arguments;
  InspectArguments inspect_arguments;
  BenchArguments bench_arguments;
  add_run(app, run_arguments);
  add_tokenize(app, tokenize_arguments);
  add_inspect(app, inspect_arguments);
  add_bench(app, bench_arguments);
  ChatCommandArguments chat_arguments;
  add_chat(app, chat_arguments);
  ServeArguments serve_arguments;
  add_serve(app, serve_arguments);
  try {
    app.parse(argc, argv);
    name_loras(run_arguments.model.loras);
    name_loras(bench_arguments.model.loras);
    name_loras(chat_arguments.model.loras);
    name_loras(serve_arguments.model.loras);
  } catch (const CLI::Success &asked) {
    return {.command = nullptr, .exit_code = app.exit(asked)};
  } catch (const CLI::ParseError &error) {
    if (app.get_subcommands().empty() && !app.remaining().empty())
      throw UsageError(
          fmt::format("'{}' is no command or option: see --help", app.remaining().front()));
    app.exit(error);
    return {.command = nullptr, .exit_code = k_exit_usage};
  } catch (const std::invalid_argument &error) {
    throw UsageError(error.what());
  }
  if (verbose) log().set_level(spdlog::level::debug);
  if (app.got_subcommand("run")) return {.command = [run_arguments] { return run(run_arguments); }};
  if (app.got_subcommand("tokenize"))
    return {.command = [tokenize_arguments] { return tokenize(tokenize_arguments); }};
  if (app.got_subcommand("inspect"))
    return {.command = [inspect_arguments] { return inspect(inspect_arguments); }};
  if (app.got_subcommand("chat"))
    return {.command = [chat_arguments] { return chat(chat_arguments); }};
  if (app.got_subcommand("serve"))
    return {.command = [serve_arguments] { return serve(serve_arguments); }};
  return {.command = [bench_arguments] { return bench(bench_arguments); }};
}

}  // namespace patchbay
