#include "apps/llama_flags.h"

#include <algorithm>
#include <cctype>
#include <map>

namespace patchbay {
namespace {

using Names = std::map<std::string_view, std::string_view>;

const Names &long_names() {
  static const Names names{
      {"-np", "--parallel"},
      {"-ub", "--ubatch-size"},
      {"-to", "--timeout"},
      {"-ngl", "--n-gpu-layers"},
      {"-fa", "--flash-attn"},
      {"-ctk", "--cache-type-k"},
      {"-ctv", "--cache-type-v"},
      {"-tb", "--threads-batch"},
      {"-Cr", "--cpu-range"},
      {"-Cb", "--cpu-mask-batch"},
      {"-Crb", "--cpu-range-batch"},
      {"-kvo", "--kv-offload"},
      {"-nkvo", "--no-kv-offload"},
      {"-nr", "--no-repack"},
      {"-dt", "--defrag-thold"},
      {"-lm", "--load-mode"},
      {"-lzm", "--lazy-mode"},
      {"-dev", "--device"},
      {"-ot", "--override-tensor"},
      {"-cmoe", "--cpu-moe"},
      {"-ncmoe", "--n-cpu-moe"},
      {"-ncffn", "--n-cpu-ffn"},
      {"-sm", "--split-mode"},
      {"-ts", "--tensor-split"},
      {"-mg", "--main-gpu"},
      {"-fit", "--fit"},
      {"-fitt", "--fit-target"},
      {"-fitc", "--fit-ctx"},
      {"-lv", "--verbosity"},
      {"-cb", "--cont-batching"},
      {"-nocb", "--no-cont-batching"},
      {"-ctxcp", "--ctx-checkpoints"},
      {"-cms", "--checkpoint-min-step"},
      {"-cram", "--cache-ram"},
      {"-kvu", "--kv-unified"},
      {"-no-kvu", "--no-kv-unified"},
      {"-sp", "--special"},
      {"-sps", "--slot-prompt-similarity"},
      {"-bs", "--backend-sampling"},
      {"-rea", "--reasoning"},
  };
  return names;
}

/// Where they are not LLAMA_ARG_ and the option's name.
const Names &odd_variables() {
  static const Names names{
      {"parallel", "LLAMA_ARG_N_PARALLEL"},
      {"batch-size", "LLAMA_ARG_BATCH"},
      {"ubatch-size", "LLAMA_ARG_UBATCH"},
      {"metrics", "LLAMA_ARG_ENDPOINT_METRICS"},
      {"slots", "LLAMA_ARG_ENDPOINT_SLOTS"},
      {"embedding", "LLAMA_ARG_EMBEDDINGS"},
      {"api-key", "LLAMA_API_KEY"},
      {"temp", "LLAMA_ARG_TEMPERATURE"},
      {"n-predict", "LLAMA_ARG_N_PREDICT"},
      {"rope-scaling", "LLAMA_ARG_ROPE_SCALING_TYPE"},
      {"ui", "LLAMA_ARG_UI"},
      {"path", "LLAMA_ARG_STATIC_PATH"},
      {"props", "LLAMA_ARG_ENDPOINT_PROPS"},
      {"reasoning-format", "LLAMA_ARG_THINK"},
      {"reasoning-budget", "LLAMA_ARG_THINK_BUDGET"},
      {"checkpoint-min-step", "LLAMA_ARG_CHECKPOINT_MIN_SPACING_NT"},
      {"verbosity", "LLAMA_ARG_LOG_VERBOSITY"},
  };
  return names;
}

}  // namespace

const std::vector<IgnoredFlag> &ignored_llama_flags() {
  static const std::vector<IgnoredFlag> flags{
      {"--jinja"},
      {"--no-jinja"},
      {"--kv-unified"},
      {"--no-kv-unified"},
      {"--kv-unified-per-slot", FlagValue::one},
      {"--cache-ram", FlagValue::one},
      {"--cache-reuse", FlagValue::one},
      {"--cache-idle-slots"},
      {"--no-cache-idle-slots"},
      {"--flash-attn", FlagValue::maybe},
      {"--no-flash-attn"},
      {"--context-shift"},
      {"--no-context-shift"},
      {"--ui,--webui"},
      {"--no-ui,--no-webui"},
      {"--n-gpu-layers,--gpu-layers", FlagValue::one},
      {"--cache-type-k", FlagValue::one},
      {"--cache-type-v", FlagValue::one},
      {"--threads-batch", FlagValue::one},
      {"--cpu-mask", FlagValue::one},
      {"--cpu-range", FlagValue::one},
      {"--cpu-strict", FlagValue::one},
      {"--cpu-mask-batch", FlagValue::one},
      {"--cpu-range-batch", FlagValue::one},
      {"--cpu-strict-batch", FlagValue::one},
      {"--prio", FlagValue::one},
      {"--prio-batch", FlagValue::one},
      {"--poll", FlagValue::one},
      {"--poll-batch", FlagValue::one},
      {"--keep", FlagValue::one},
      {"--swa-full"},
      {"--perf"},
      {"--no-perf"},
      {"--escape"},
      {"--no-escape"},
      {"--kv-offload"},
      {"--no-kv-offload"},
      {"--op-offload"},
      {"--no-op-offload"},
      {"--no-host"},
      {"--repack"},
      {"--defrag-thold", FlagValue::one},
      {"--mlock"},
      {"--mmap"},
      {"--no-mmap"},
      {"--direct-io"},
      {"--no-direct-io"},
      {"--load-mode", FlagValue::one},
      {"--lazy-mode", FlagValue::one},
      {"--numa", FlagValue::one},
      {"--device", FlagValue::one},
      {"--override-tensor", FlagValue::one},
      {"--cpu-moe"},
      {"--n-cpu-moe", FlagValue::one},
      {"--n-cpu-ffn", FlagValue::one},
      {"--split-mode", FlagValue::one},
      {"--tensor-split", FlagValue::one},
      {"--main-gpu", FlagValue::one},
      {"--fit", FlagValue::maybe},
      {"--fit-target", FlagValue::one},
      {"--fit-ctx", FlagValue::one},
      {"--check-tensors"},
      {"--log-file", FlagValue::one},
      {"--log-colors", FlagValue::maybe},
      {"--log-prefix"},
      {"--no-log-prefix"},
      {"--log-timestamps"},
      {"--no-log-timestamps"},
      {"--log-verbosity,--verbosity", FlagValue::one},
      {"--offline"},
      {"--samplers", FlagValue::one},
      {"--sampler-seq,--sampling-seq", FlagValue::one},
      {"--backend-sampling"},
      {"--ctx-checkpoints,--swa-checkpoints", FlagValue::one},
      {"--checkpoint-min-step", FlagValue::one},
      {"--special"},
      {"--warmup"},
      {"--no-warmup"},
      {"--spm-infill"},
      {"--cont-batching"},
      {"--no-cont-batching"},
      {"--no-mmproj,--no-mmproj-auto"},
      {"--reuse-port"},
      {"--path", FlagValue::one},
      {"--cors-methods", FlagValue::one},
      {"--cors-headers", FlagValue::one},
      {"--cors-credentials"},
      {"--no-cors-credentials"},
      {"--props"},
      {"--slot-prompt-similarity", FlagValue::one},
      {"--reasoning", FlagValue::maybe},
      {"--reasoning-format", FlagValue::one},
      {"--reasoning-effort", FlagValue::one},
      {"--reasoning-budget", FlagValue::one},
      {"--reasoning-budget-message", FlagValue::one},
      {"--reasoning-preserve"},
      {"--no-reasoning-preserve"},
  };
  return flags;
}

std::vector<std::string> spell_out_short_flags(std::vector<std::string> arguments) {
  for (auto &argument : arguments) {
    if (argument == "--") break;
    const auto found = long_names().find(argument);
    if (found != long_names().end()) argument = found->second;
  }
  return arguments;
}

std::string llama_variable_of(std::string_view option) {
  const auto found = odd_variables().find(option);
  if (found != odd_variables().end()) return std::string(found->second);
  std::string name = "LLAMA_ARG_";
  for (const char c : option)
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

}  // namespace patchbay
