#include "apps/merge_options.h"

#include "apps/cli_values.h"
#include "apps/model_options.h"

namespace patchbay {
namespace {

void add_combine_options(CLI::App &app, MergeArguments &arguments) {
  choice<CombineRule>(app, "--combine",
                      {{"linear", CombineRule::linear},
                       {"ties", CombineRule::ties},
                       {"dare_linear", CombineRule::dare_linear},
                       {"dare_ties", CombineRule::dare_ties}},
                      arguments.combine,
                      "first make one adapter of all, by PEFT's rule of that name: linear, ties, "
                      "dare_linear, dare_ties. They work on A and on B apart: linear is not the "
                      "sum of the changes, which is what is merged without this");
  constexpr double k_least = 1e-6;
  number(app, "--density", arguments.density, k_least, 1.0,
         "the part of an adapter's numbers that ties and dare keep; 1: all");
  number(app, "-s,--seed", arguments.seed, uint64_t{0}, std::numeric_limits<uint64_t>::max(),
         "chooses what dare drops");
}

}  // namespace

void add_merge(CLI::App &app, MergeArguments &arguments) {
  CLI::App *merge_app =
      app.add_subcommand("merge", "write a model with adapters merged into its weights");
  merge_app->footer(
      "The changes are added in F32 and rounded once, to the type that each tensor has.\n"
      "patchbay merge -m base.gguf --lora pirate:0.5 --lora json -o merged.gguf\n"
      "patchbay merge -m base.gguf --lora pirate --type f16 --split-max-size 2G -o merged.gguf");
  merge_app
      ->add_option("-m,--model", arguments.model,
                   "base model, a GGUF file; without it the default model")
      ->check(check_not_empty)
      ->type_name("FILE");
  add_lora_options(*merge_app, arguments.loras);
  add_adapter_load_options(*merge_app, arguments.adapters);
  merge_app->add_option("-o,--output", arguments.output, "the model to write")
      ->required()
      ->check(check_not_empty)
      ->type_name("FILE");
  choice<ggml_type>(*merge_app, "--type",
                    {{"f32", GGML_TYPE_F32},
                     {"f16", GGML_TYPE_F16},
                     {"bf16", GGML_TYPE_BF16},
                     {"q8_0", GGML_TYPE_Q8_0}},
                    arguments.type, "type of all matrices: f32, f16, bf16 or q8_0")
      ->default_str("as in the base");
  bytes(*merge_app, "--split-max-size", arguments.split_max_bytes,
        "split into files of so many bytes of tensors at most");
  merge_app->add_flag("--allow-alora", arguments.allow_alora,
                      "merge aLoRAs too: they then act on every token");
  add_combine_options(*merge_app, arguments);
  number_or_default(*merge_app, "-t,--threads", arguments.n_threads, 1U, 512U, "threads")
      ->default_str("one per core");
  merge_app->add_flag("--dry-run", arguments.dry_run, "check and say what would be done only");
  merge_app->add_flag("--json", arguments.json, "print JSON");
}

}  // namespace patchbay
