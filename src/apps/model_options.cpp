#include "apps/model_options.h"

#include <fmt/format.h>

#include "apps/cli_values.h"

namespace patchbay {
namespace {

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

}  // namespace

void add_adapter_load_options(CLI::App &app, AdapterLoadOptions &options) {
  app.add_flag("--allow-full-modules", options.allow_full_modules,
               "serve whole new matrices of adapters (PEFT's modules_to_save), at the memory and "
               "time of a base weight for each; without it they are refused");
  app.add_flag("--base-is-residual", options.base_is_residual,
               "the base is the residual model that PiSSA, OLoRA, CorDA, LoRA-GA or LoftQ adapters "
               "were trained on; without it they are refused");
}

void add_lora_options(CLI::App &app, std::vector<LoraItem> &loras) {
  const auto add_list = [&loras](const std::vector<std::string> &lists, bool strength_required) {
    try {
      for (const auto &list : lists) {
        const auto items = parse_lora_list(list, strength_required);
        loras.insert(loras.end(), items.begin(), items.end());
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
}

void add_model_options(CLI::App &app, ModelArguments &arguments) {
  app.add_option("-m,--model", arguments.model,
                 "base model, a GGUF file; without it the default model")
      ->check(check_not_empty)
      ->type_name("FILE");
  add_lora_options(app, arguments.loras);
  add_adapter_load_options(app, arguments.adapters);
  number(app, "--ubatch-size,--ubatch", arguments.engine.n_ubatch, 1U, 1U << 16U,
         "tokens per step at most");
  number_or_default(app, "-t,--threads", arguments.engine.n_threads, 1U, 512U,
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
           arguments.engine.cache_memory_bytes = parse_bytes("--cache-memory", text, 0);
         },
         "memory for computed tokens that have to leave the KV cache, in bytes or as 64M or 2G; "
         "they come back when a prompt begins with them; 0: none")
      ->type_name("SIZE")
      ->default_str("0");
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

}  // namespace patchbay
