#pragma once

#include <ggml.h>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "apps/lora_list.h"
#include "patchbay/session.hpp"
#include "server/http_options.h"
#include "server/log_format.h"
#include "server/sampling_fields.h"

namespace patchbay {

/// Exit codes of the program: 0, k_exit_failure for what went wrong with files or the machine,
/// k_exit_usage for a command line that cannot be meant.
inline constexpr int k_exit_failure = 1;
inline constexpr int k_exit_usage = 2;

/// A command line that parses but cannot be carried out; ends the program with k_exit_usage.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What `run` and `bench` share: the model, its adapters and how to compute.
struct ModelArguments {
  std::string model;  ///< empty: the default model
  std::vector<LoraItem> loras;
  EngineOptions engine;
  bool repack = true;
  bool own_products = true;
  AdapterLoadOptions adapters;
};

struct RunArguments {
  ModelArguments model;
  std::optional<std::string> prompt;
  std::vector<int32_t> tokens;  ///< in place of a prompt
  GenerateOptions generate;
  std::optional<uint64_t> seed;
  std::string logits_path;      ///< empty: none written
  std::string save_session;     ///< file for the prompt's and the answer's cache; empty: none
  std::string restore_session;  ///< one that was saved; empty: none
  bool json = false;
  bool quiet = false;  ///< no timings
};

struct TokenizeArguments {
  std::string model;
  std::optional<std::string> text;  ///< none: standard input
  bool add_special = true;
  bool parse_special = true;
  bool pieces = false;  ///< show each token's text as well
  bool json = false;
};

struct InspectArguments {
  std::string path;
  std::string
      base;  ///< for an adapter: check it against this model; empty: only what its files say
  AdapterLoadOptions adapters;  ///< for that check
  std::string plot;             ///< picture of an adapter's changes to write; empty: none
  bool tensors = false;
  bool json = false;
};

struct ConvertArguments {
  std::string path;    ///< PEFT folder or GGUF adapter
  std::string output;  ///< GGUF file; with `reverse` a folder
  std::string base;    ///< GGUF file or Hugging Face folder; empty: the folder the adapter names
  AdapterLoadOptions adapters;
  std::optional<ggml_type> type{};  ///< of factors; none: as they are
  bool reverse = false;             ///< to a PEFT folder
  bool overwrite = false;
  bool dry_run = false;  ///< all but the writing
  bool json = false;
};

struct BenchArguments {
  ModelArguments model;
  uint32_t n_prompt = 256;
  uint32_t n_gen = 64;
  uint32_t n_repeat = 3;
  uint32_t n_streams = 1;  ///< sequences decoded side by side
  uint32_t n_adapters =
      0;  ///< random adapters made for the measurement, dealt to the streams in turn
  uint32_t n_rank = 16;
  bool against_base = false;  ///< measure the base as well, in turns
  bool json = false;
};

/// What `chat` and `serve` share: how the model is spoken to.
struct ChatArguments {
  std::string chat_template;      ///< a name or a text; empty: the model's own
  bool adapter_templates = true;  ///< adapters' own chat templates are used
  std::string tool_call_parser = "auto";
};

struct ChatCommandArguments {
  ModelArguments model;
  ChatArguments chat;
  std::string system;  ///< what the model is told first; empty: nothing
  GenerateOptions generate;
  std::optional<uint64_t> seed;
};

struct ServeArguments {
  ModelArguments model;
  HttpOptions http;
  std::string alias;  ///< what requests call the base; empty: the file's stem
  std::vector<std::string> tags;
  std::vector<std::string> lora_dirs;
  std::vector<std::string> hidden_adapters;
  ChatArguments chat;
  bool apply_adapters = true;  ///< those of --lora are worn by requests that say nothing
  bool skip_bad_adapters = false;
  SamplingDefaults defaults;         ///< of requests that do not say
  std::optional<Pooling> pooling{};  ///< of embeddings; none: as the model says
  std::vector<std::string> api_keys;
  std::vector<std::string> api_key_files;
  LogFormat log_format = LogFormat::text;
  bool log_prompts = false;
  bool log_disable = false;
  bool metrics = true;
  bool slots = true;
  std::string slot_save_path;  ///< folder; empty: slots are not saved
  int embd_normalize = 2;
  std::optional<uint32_t> n_ctx{};  ///< 0: the model's context
  std::string config;               ///< file; empty: none
  bool print_config = false;
  std::vector<std::string> warnings{};  ///< about the command line
  uint32_t n_batch = 0;                 ///< 0: n_ubatch decides alone
  uint32_t sse_ping_s = 15;             ///< how long a stream may be silent
  uint32_t drain_s = 30;                ///< how long running requests may go on after a signal
};

// The subcommands. They throw LoadError, UsageError and std::invalid_argument; main turns these
// into exit codes.
int run(const RunArguments &arguments);
int tokenize(const TokenizeArguments &arguments);
int inspect(const InspectArguments &arguments);
int convert(const ConvertArguments &arguments);
int bench(const BenchArguments &arguments);
int chat(const ChatCommandArguments &arguments);
int serve(const ServeArguments &arguments);

}  // namespace patchbay
