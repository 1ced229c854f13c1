#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "apps/commands.h"
#include "apps/model_files.h"
#include "apps/npy.h"
#include "base/log.h"
#include "base/replacement_file.h"
#include "lora/adapter.h"

namespace patchbay {
namespace {

using Json = nlohmann::ordered_json;

double per_second(size_t n, double ms) { return ms > 0 ? 1000.0 * static_cast<double>(n) / ms : 0; }

/// Steps after the prompt's: the first token is drawn from the prompt's own logits.
size_t n_decode_steps(const GenerateResult &result) {
  return result.tokens.empty() ? 0 : result.tokens.size() - 1;
}

/// Of the prompt, what the cache did not have.
size_t n_computed(const GenerateResult &result) {
  return result.n_tokens_prompt - result.n_tokens_cached;
}

Json describe_adapters(const RunArguments &arguments, const GenerateResult &result) {
  Json list = Json::array();
  for (size_t i = 0; i < arguments.model.loras.size(); ++i) {
    const LoraItem &item = arguments.model.loras[i];
    list.push_back({{"name", item.name},
                    {"path", item.path},
                    {"scale", item.strength},
                    {"active_from", result.active_from[i]}});
  }
  return list;
}

void print_json(const RunArguments &arguments, const GenerateResult &result) {
  const Json json{
      {"text", result.text},
      {"tokens", result.tokens},
      {"stop_reason", to_string(result.reason)},
      {"n_tokens_prompt", result.n_tokens_prompt},
      {"n_tokens_cached", result.n_tokens_cached},
      {"n_tokens_out", result.tokens.size()},
      {"seed", arguments.generate.sampling.seed},
      {"lora", describe_adapters(arguments, result)},
      {"timings",
       {{"prompt_ms", result.prompt_ms},
        {"prompt_tokens_per_s", per_second(n_computed(result), result.prompt_ms)},
        {"decode_ms", result.decode_ms},
        {"decode_tokens_per_s", per_second(n_decode_steps(result), result.decode_ms)}}}};
  // A path may hold bytes that are no UTF-8.
  fmt::print("{}\n", json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

void print_timings(const GenerateResult &result) {
  const std::string line = fmt::format(
      "prompt: {} tokens{}, {:.0f} ms, {:.1f} tokens/s | generated: {} tokens, {:.0f} ms, "
      "{:.1f} tokens/s\n",
      result.n_tokens_prompt,
      result.n_tokens_cached > 0 ? fmt::format(" ({} cached)", result.n_tokens_cached) : "",
      result.prompt_ms, per_second(n_computed(result), result.prompt_ms), result.tokens.size(),
      result.decode_ms, per_second(n_decode_steps(result), result.decode_ms));
  // Not fmt::print: it throws when standard error is closed, but the answer has arrived.
  std::fputs(line.c_str(), stderr);
}

void warn_uninvoked(const RunArguments &arguments, const GenerateResult &result) {
  for (size_t i = 0; i < result.active_from.size(); ++i) {
    const LoraItem &item = arguments.model.loras[i];
    if (result.active_from[i] >= 0 || item.strength == 0) continue;
    log().warn("{}: its invocation tokens are not in the prompt, so it does not act", item.name);
  }
}

/// Writes piece by piece; a reader that has gone away ends the generation.
bool print_piece(std::string_view text) {
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() &&
         std::fflush(stdout) == 0;
}

std::vector<int32_t> prompt_tokens(const RunArguments &arguments, const Model &model) {
  if (!arguments.prompt) return arguments.tokens;
  if (!model.has_tokenizer())
    throw UsageError("the model has no tokenizer: give token ids with --tokens");
  return model.tokenize(*arguments.prompt);
}

/// A request uses the model's context at most; without -c the cache is only as large as it can use.
EngineOptions fit_context(EngineOptions options, size_t n_prompt, int32_t n_predict,
                          uint32_t n_ctx_train) {
  if (options.kv_memory_bytes > 0) return options;
  const size_t needed = n_predict < 0 ? n_ctx_train : n_prompt + static_cast<size_t>(n_predict);
  const size_t wanted = options.n_ctx > 0 ? options.n_ctx : needed;
  options.n_ctx =
      static_cast<uint32_t>(std::clamp<size_t>(wanted, 1, std::max<size_t>(n_ctx_train, 1)));
  return options;
}

void write_logits(const RunArguments &arguments, Session &session,
                  const std::vector<int32_t> &tokens, const std::vector<WornAdapter> &adapters) {
  const std::vector<float> logits = session.logits(tokens, adapters);
  write_npy(arguments.logits_path, logits, tokens.size(), logits.size() / tokens.size());
}

/// The value, or what went wrong with a file as an exception.
template <class T>
T value_of(std::variant<T, Error> result) {
  if (const auto *error = std::get_if<Error>(&result)) throw std::runtime_error(error->message);
  return std::get<T>(std::move(result));
}

void restore_session(const RunArguments &arguments, Session &session, size_t n_prompt) {
  if (arguments.restore_session.empty()) return;
  RestoreOptions options;
  for (const auto &worn : arguments.generate.adapters) options.adapters.push_back(worn.adapter);
  const auto restored =
      value_of(session.engine().restore_session(arguments.restore_session, options));
  if (restored.n_tokens < std::min<size_t>(restored.n_tokens_all, n_prompt)) {
    log().warn("{}: {} of its {} tokens fit into the KV cache", arguments.restore_session,
               restored.n_tokens, restored.n_tokens_all);
  }
}

/// What can be known before the answer is computed: that a file can be there, and that it is none
/// of those in use.
void check_place_to_save(const RunArguments &arguments) {
  if (arguments.save_session.empty()) return;
  std::vector<std::string> in_use{arguments.model.model};
  for (const auto &item : arguments.model.loras) in_use.push_back(item.path);
  for (const auto &path : in_use) {
    std::error_code ignored;
    if (std::filesystem::equivalent(path, arguments.save_session, ignored))
      throw UsageError(fmt::format("--save-session would replace {}", path));
  }
  const ReplacementFile place(arguments.save_session);
}

void save_session(const RunArguments &arguments, Session &session, std::vector<int32_t> tokens,
                  const GenerateResult &result) {
  if (arguments.save_session.empty()) return;
  const auto spans = plan_spans(tokens, arguments.generate.adapters).spans;
  tokens.insert(tokens.end(), result.tokens.begin(), result.tokens.end());
  const auto saved = value_of(session.engine().save_session(
      arguments.save_session, {.tokens = std::move(tokens), .spans = spans}));
  log().info("{}: {} tokens in {} bytes", arguments.save_session, saved.n_tokens, saved.size_bytes);
}

}  // namespace

int run(const RunArguments &given) {
  RunArguments arguments = given;
  const auto model = open_model(arguments.model);
  arguments.generate.adapters = open_adapters(*model, arguments.model.loras);
  arguments.generate.sampling.seed = arguments.seed ? *arguments.seed : std::random_device{}();
  const std::vector<int32_t> tokens = prompt_tokens(arguments, *model);
  if (tokens.empty()) throw UsageError("the prompt is empty");
  check_place_to_save(arguments);

  Session session(model, fit_context(arguments.model.engine, tokens.size(),
                                     arguments.generate.n_predict, model->n_ctx_train()));
  restore_session(arguments, session, tokens.size());
  if (!arguments.logits_path.empty())
    write_logits(arguments, session, tokens, arguments.generate.adapters);
  const bool has_more = arguments.json || !arguments.save_session.empty();
  if (arguments.generate.n_predict == 0 && !arguments.logits_path.empty() && !has_more) return 0;

  const TextCallback on_text = arguments.json ? TextCallback{} : print_piece;
  const GenerateResult result = session.generate(tokens, arguments.generate, on_text);
  if (result.reason == StopReason::cancelled)
    throw std::runtime_error("standard output cannot be written");
  if (arguments.json) {
    print_json(arguments, result);
  } else if (!result.text.ends_with('\n')) {
    print_piece("\n");
  }
  save_session(arguments, session, tokens, result);
  warn_uninvoked(arguments, result);
  if (!arguments.quiet && !arguments.json) print_timings(result);
  return 0;
}

}  // namespace patchbay
