#include "apps/extract_options.h"

#include "apps/cli_values.h"

namespace patchbay {

void add_extract(CLI::App &app, ExtractArguments &arguments) {
  CLI::App *extract_app =
      app.add_subcommand("extract", "make an adapter of what a tuned model has changed");
  extract_app->footer(
      "patchbay extract --base base.gguf --tuned tuned.gguf --rank 32 -o adapter.gguf\n"
      "patchbay extract --base base.gguf --tuned tuned.gguf --rank auto --energy 0.9 -o "
      "adapter.gguf");
  const auto file = [extract_app](const char *name, std::string &target, const char *what) {
    extract_app->add_option(name, target, what)
        ->required()
        ->check(check_not_empty)
        ->type_name("FILE");
  };
  file("-b,--base", arguments.base, "the model before, a GGUF file");
  file("--tuned", arguments.tuned, "the model after, of the same architecture and shapes");
  file("-o,--output", arguments.output, "the GGUF adapter to write");
  extract_app
      ->add_option_function<std::string>(
          "-r,--rank",
          [&arguments](const std::string &text) {
            constexpr int64_t k_most = 4096;
            if (text != "auto")
              arguments.n_rank = parse_named_number<int64_t>("--rank", text, 1, k_most);
          },
          "rank of the pairs, or auto for the least that keeps --energy")
      ->required()
      ->type_name("N");
  constexpr double k_least = 1e-3;
  number(*extract_app, "--energy", arguments.energy, k_least, 1.0,
         "with --rank auto: the part of each weight's squared change to keep");
  choice<ggml_type>(*extract_app, "--type", {{"f32", GGML_TYPE_F32}, {"f16", GGML_TYPE_F16}},
                    arguments.type, "type of the factors: f32 or f16")
      ->default_str("f32");
  extract_app->add_flag("--ignore-vectors", arguments.ignore_vectors,
                        "leave out norms and biases that differ");
  number_or_default(*extract_app, "-t,--threads", arguments.n_threads, 1U, 512U, "threads")
      ->default_str("one per core");
  extract_app->add_flag("--json", arguments.json, "print JSON");
}

}  // namespace patchbay
