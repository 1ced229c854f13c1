#include "apps/serve_options.h"

#include <limits>

#include "apps/chat_options.h"
#include "apps/cli_values.h"
#include "apps/llama_flags.h"
#include "apps/model_options.h"
#include "kv/kv_sizes.h"

namespace patchbay {
namespace {

constexpr float k_huge = 1e6F;
constexpr uint32_t k_day_s = 86400;

/// Seconds on the command line, milliseconds inside.
void seconds(CLI::App &app, const std::string &name, std::chrono::milliseconds &target,
             const std::string &what) {
  app.add_option_function<std::string>(
         name,
         [&target, name](const std::string &text) {
           target = std::chrono::seconds(parse_named_number<uint32_t>(name, text, 1, k_day_s));
         },
         what)
      ->type_name("S")
      ->default_str(fmt::format("{}", std::chrono::floor<std::chrono::seconds>(target).count()));
}

void add_adapters(CLI::App &app, ServeArguments &arguments) {
  repeatable(app, "--lora-dir", arguments.lora_dirs,
             "folder from which adapters may be loaded over HTTP, and on first use; repeatable")
      ->type_name("DIR");
  switch_off(app, "--lora-init-without-apply", arguments.apply_adapters,
             "load the adapters of --lora at strength 0");
  app.add_flag("--skip-bad-adapters", arguments.skip_bad_adapters,
               "start without adapters of --lora that cannot be loaded");
  app.add_option_function<std::vector<std::string>>(
         "--hidden-adapters",
         [&arguments](const std::vector<std::string> &lists) {
           for (const auto &list : lists) {
             for (auto &name : CLI::detail::split(list, ','))
               arguments.hidden_adapters.push_back(name);
           }
         },
         "names, separated by commas, that /v1/models leaves out; repeatable")
      ->type_name("NAMES")
      ->type_size(1)
      ->allow_extra_args(false);
  bytes(app, "--adapter-memory", arguments.model.engine.adapter_memory_bytes,
        "memory for adapters that no request wears at the moment")
      ->default_str("1G");
}

void add_engine(CLI::App &app, ServeArguments &arguments) {
  EngineOptions &engine = arguments.model.engine;
  auto *n_ctx = number(app, "-c,--ctx-size", arguments.n_ctx, 0U, k_max_kv_tokens,
                       "tokens that the KV cache holds, shared by all requests; 0: the model's "
                       "context")
                    ->default_str("the model's context, at most 4096");
  bytes(app, "--kv-memory", engine.kv_memory_bytes,
        "the most memory for the KV cache, in place of -c")
      ->excludes(n_ctx);
  number_or_default(app, "--parallel", engine.n_seqs_max, 1U, 4096U,
                    "answers in the making at once (-np)");
  number(app, "--queue-max", engine.n_queue_max, 1U, 1U << 20U,
         "requests that may wait; more are answered with 429");
  number(app, "-b,--batch-size", arguments.n_batch, 1U, 1U << 16U,
         "an upper bound of --ubatch-size, as for llama-server")
      ->default_str("as --ubatch-size");
  on_off(app, "cache-prompt", engine.prefix_cache,
         "keep computed tokens for requests that begin with them");
}

void add_defaults(CLI::App &app, ServeArguments &arguments) {
  SamplingDefaults &to = arguments.defaults;
  constexpr int32_t k_most = std::numeric_limits<int32_t>::max();
  CLI::App &group = *app.add_option_group("Of requests that do not say");
  number(group, "-n,--n-predict,--predict", to.n_predict, -1, k_most,
         "tokens to generate at most; -1: until the context is full");
  number(group, "--temp,--temperature", to.temperature, 0.0F, k_huge,
         "temperature; 0 takes the best token");
  number(group, "--top-k", to.top_k, 0, k_most, "keep the K best tokens; 0: all");
  number(group, "--top-p", to.top_p, 0.0F, 1.0F, "keep the best tokens up to this probability");
  number(group, "--min-p", to.min_p, 0.0F, 1.0F,
         "drop tokens less likely than this part of the best");
  number(group, "--repeat-penalty", to.repeat_penalty, 1 / k_huge, k_huge,
         "divides logits of recent tokens; 1: off");
  number(group, "--repeat-last-n", to.n_penalty_last, -1, k_most,
         "tokens that the penalties look back at; -1: all");
  number(group, "--presence-penalty", to.presence_penalty, -100.0F, 100.0F,
         "lowers logits of recent tokens");
  number(group, "--frequency-penalty", to.frequency_penalty, -100.0F, 100.0F,
         "the same per occurrence");
  group
      .add_option_function<std::string>(
          "-s,--seed",
          [&to](const std::string &text) {
            constexpr uint64_t k_most_seed = std::numeric_limits<uint64_t>::max();
            to.seed.reset();
            if (text != "-1")
              to.seed = parse_named_number<uint64_t>("--seed", text, 0, k_most_seed);
          },
          "random seed; -1: another one for each")
      ->type_name("N");
}

void add_limits(CLI::App &app, HttpOptions &http) {
  HttpLimits &limits = http.limits;
  CLI::App &group = *app.add_option_group("Limits");
  bytes(group, "--max-body", limits.body_bytes, "largest body of a request")->default_str("64M");
  bytes(group, "--max-header", limits.header_bytes, "largest head of a request")
      ->default_str("32K");
  number(group, "--max-connections", http.n_connections_max, 1U, 1U << 20U,
         "connections at once; more are answered with 503");
  seconds(group, "--timeout-idle", limits.idle, "how long a connection may be idle");
  seconds(group, "--timeout-header", limits.header, "for the head of a request to come");
  seconds(group, "--timeout-body", limits.body, "for its body to come");
  seconds(group, "--timeout-write", limits.write, "for a client to take a part of an answer");
  group
      .add_option_function<std::string>(
          "--timeout",
          [&limits](const std::string &text) {
            limits.body = limits.write =
                std::chrono::seconds(parse_named_number<uint32_t>("--timeout", text, 1, k_day_s));
          },
          "both of these (-to)")
      ->type_name("S");
}

void add_http(CLI::App &app, ServeArguments &arguments) {
  HttpOptions &http = arguments.http;
  app.add_option("--host", http.host, "address to listen on")
      ->check(check_not_empty)
      ->capture_default_str();
  number<uint16_t>(app, "--port", http.port, 0, 65535, "port to listen on; 0: any free one");
  number(app, "--threads-http", http.n_threads, 1U, 256U, "threads for connections");
  app.add_option_function<std::vector<std::string>>(
         "--api-key",
         [&arguments](const std::vector<std::string> &lists) {
           for (const auto &list : lists) {
             for (auto &key : CLI::detail::split(list, ',')) arguments.api_keys.push_back(key);
           }
         },
         "keys that may do everything, separated by commas; repeatable")
      ->type_name("KEY")
      ->type_size(1)
      ->allow_extra_args(false);
  repeatable(app, "--api-key-file", arguments.api_key_files,
             "keys, one a line: JSON {\"key\", \"name\", \"admin\", \"adapters\", \"tenant\"}, or "
             "the key alone, which may do everything")
      ->type_name("FILE");
  auto *cert = app.add_option("--ssl-cert-file", http.tls_cert_file, "certificate, PEM");
  auto *key = app.add_option("--ssl-key-file", http.tls_key_file, "its private key, PEM");
  cert->needs(key)->type_name("FILE");
  key->needs(cert)->type_name("FILE");
  app.add_option_function<std::vector<std::string>>(
         "--cors-origins",
         [&http](const std::vector<std::string> &lists) {
           for (const auto &list : lists) {
             for (auto &origin : CLI::detail::split(list, ',')) http.cors_origins.push_back(origin);
           }
         },
         "web pages that may ask, as https://host[:port], separated by commas; *: all")
      ->type_name("LIST")
      ->type_size(1)
      ->allow_extra_args(false);
  app.add_option_function<std::string>(
         "--sse-ping-interval",
         [&arguments](const std::string &text) {
           arguments.sse_ping_s =
               text == "-1" ? k_day_s
                            : parse_named_number<uint32_t>("--sse-ping-interval", text, 1, k_day_s);
         },
         "seconds after which a silent stream says that it is alive; -1: never")
      ->type_name("S")
      ->default_str(fmt::format("{}", arguments.sse_ping_s));
  number(app, "--drain", arguments.drain_s, 0U, k_day_s,
         "seconds that running requests may go on after a signal");
}

void add_routes(CLI::App &app, ServeArguments &arguments) {
  app.add_option("-a,--alias", arguments.alias, "what requests call the base model")
      ->check(check_not_empty)
      ->type_name("NAME");
  app.add_option_function<std::string>(
         "--tags",
         [&arguments](const std::string &list) { arguments.tags = CLI::detail::split(list, ','); },
         "words that the model list shows beside the base, separated by commas")
      ->type_name("LIST");
  on_off(app, "metrics", arguments.metrics, "GET /metrics");
  on_off(app, "slots", arguments.slots, "GET /slots");
  app.add_option("--slot-save-path", arguments.slot_save_path,
                 "folder for the files of POST /slots/{id}?action=save and restore")
      ->check(check_not_empty)
      ->type_name("DIR");
  choice<Pooling>(app, "--pooling",
                  {{"none", Pooling::none},
                   {"mean", Pooling::mean},
                   {"cls", Pooling::cls},
                   {"last", Pooling::last}},
                  arguments.pooling, "what embeddings are made of: none, mean, cls or last")
      ->default_str("as the model says, else mean");
  number(app, "--embd-normalize", arguments.embd_normalize, -1, 100,
         "of embeddings: -1 none, 0 largest, 1 taxicab, 2 Euclidean, p");
  app.add_flag_callback(
      "--embedding,--embeddings", [] {}, "embeddings are served always; for llama-server's sake");
}

void add_log(CLI::App &app, ServeArguments &arguments) {
  choice<LogFormat>(app, "--log-format", {{"text", LogFormat::text}, {"json", LogFormat::json}},
                    arguments.log_format, "text or json, one object a line")
      ->default_str("text");
  app.add_flag("--log-prompts", arguments.log_prompts, "log the prompts of requests as well");
  app.add_flag("--log-disable", arguments.log_disable, "log warnings and errors only");
}

/// Accepted and told of, so that command lines for llama-server start.
void add_ignored(CLI::App &app, ServeArguments &arguments) {
  CLI::App &group = *app.add_option_group("");  // without a name it is not in the help
  for (const auto &[names, value] : ignored_llama_flags()) {
    const std::string spelled(names);
    const std::string name = spelled.substr(0, spelled.find(','));
    const auto note = [&arguments, name] {
      arguments.warnings.push_back(name + " has no meaning here and is ignored");
    };
    if (value == FlagValue::none) {
      group.add_flag_callback(spelled, note);
    } else {
      group
          .add_option_function<std::string>(spelled,
                                            [note](const std::string & /*value*/) { note(); })
          ->expected(value == FlagValue::maybe ? 0 : 1, 1)
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    }
  }
}

void add_config(CLI::App &app, ServeArguments &arguments) {
  app.add_option("--config", arguments.config,
                 "options by their long names, TOML or JSON; flags and the environment "
                 "(PATCHBAY_PORT, LLAMA_ARG_PORT) stand above it")
      ->check(check_not_empty)
      ->type_name("FILE");
  app.add_flag("--print-config", arguments.print_config,
               "print what is in effect as TOML, without keys, and end");
}

}  // namespace

CLI::App *add_serve(CLI::App &app, ServeArguments &arguments) {
  CLI::App *serve_app = app.add_subcommand("serve", "answer HTTP requests, each with its adapters");
  add_model_options(*serve_app, arguments.model);
  add_routes(*serve_app, arguments);
  add_adapters(*serve_app, arguments);
  add_engine(*serve_app, arguments);
  add_chat_options(*serve_app, arguments.chat);
  add_tool_option(*serve_app, arguments.chat);
  add_http(*serve_app, arguments);
  add_log(*serve_app, arguments);
  add_defaults(*serve_app, arguments);
  add_limits(*serve_app, arguments.http);
  add_config(*serve_app, arguments);
  add_ignored(*serve_app, arguments);
  return serve_app;
}

}  // namespace patchbay
