#include "lora/peft_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "lora/dotted_path.h"
#include "lora/invocation_tokens.h"
#include "lora/json_file.h"

namespace patchbay {
namespace {

using nlohmann::ordered_json;

constexpr int64_t k_max_rank = std::numeric_limits<int32_t>::max();

/// An option that changes the mathematics in a way that is not supported: refused when set.
struct RefusedOption {
  const char *key;
  const char *reason;
  const char *hint;
};

constexpr RefusedOption k_refused[] = {
    {"kasa_config", "KaSA belongs to a base without its smallest singular parts",
     "merge it into its base with PEFT, and extract a plain LoRA from the difference"},
    {"arrow_config", "Arrow routes each token between several adapters",
     "load the adapters themselves, with strengths"},
};

/// Read here, or without meaning for inference.
constexpr std::string_view k_known[] = {
    "alora_invocation_tokens",
    "alpha_pattern",
    "arrow_config",
    "auto_mapping",
    "base_model_name_or_path",
    "bias",
    "corda_config",
    "enable_lora",
    "ensure_weight_tying",
    "eva_config",
    "exclude_modules",
    "fan_in_fan_out",
    "inference_mode",
    "init_lora_weights",
    "invocation_string",
    "kasa_config",
    "layer_replication",
    "layers_pattern",
    "layers_to_transform",
    "loftq_config",
    "lora_alpha",
    "lora_bias",
    "lora_dropout",
    "lora_ga_config",
    "megatron_config",
    "megatron_core",
    "merge_weights",
    "modules_to_save",
    "monteclora_config",
    "peft_type",
    "peft_version",
    "qalora_group_size",
    "r",
    "rank_pattern",
    "revision",
    "runtime_config",
    "target_modules",
    "target_parameters",
    "task_type",
    "trainable_token_indices",
    "use_bdlora",
    "use_dora",
    "use_qalora",
    "use_rslora",
    "velora_config",
};

[[noreturn]] void refuse_option(const JsonFile &json, const std::string &key, std::string reason,
                                std::string hint = {}) {
  throw LoadError(
      {.path = json.path(),
       .item = key,
       .problem = fmt::format("= {} cannot be honoured: {}", shown(json.root().at(key)), reason),
       .hint = std::move(hint)});
}

void check_peft_type(const JsonFile &json) {
  if (json.find("peft_type") == nullptr &&
      (json.find("fine_tune_type") != nullptr || json.find("lora_parameters") != nullptr)) {
    throw LoadError({.path = json.path(),
                     .problem = "is the configuration of an MLX adapter, which is not supported",
                     .hint = "convert it to PEFT: transpose lora_a and lora_b, and rename them"});
  }
  const auto type = json.get_string("peft_type");
  if (type == "LORA") return;
  throw LoadError(
      {.path = json.path(),
       .item = "peft_type",
       .problem = "is not supported",
       .wanted = "LORA",
       .found = type.value_or("nothing"),
       .hint = "peft.save_as_lora of PEFT 0.19 and newer can turn many types into LoRA"});
}

/// Some initialisations take a part out of the base weight; the saved pair then belongs to what was
/// left.
void check_initialization(const JsonFile &json, const AdapterLoadOptions &options) {
  constexpr const char *k_key = "init_lora_weights";
  const auto *value = json.find(k_key);
  if (value == nullptr || value->is_boolean()) return;
  const auto name = ascii_lower(json.get_string(k_key).value_or(""));
  if (name.starts_with("pissa") || name.starts_with("corda") || name == "olora" ||
      name == "lora_ga" || name == "loftq") {
    if (options.base_is_residual) return;
    refuse_option(json, k_key, "trained from a modified base",
                  "save it again with `path_initial_model_for_weight_conversion`, or give "
                  "--base-is-residual if the base is that modified one");
  }
  if (name != "gaussian" && name != "orthogonal" && name != "eva" && name != "mica") {
    refuse_option(json, k_key, "the name is unknown");
  }
}

/// How many layers the ranges [begin, end) name, when they name each of them once and in order.
std::optional<int64_t> count_layers_in_order(const ordered_json &ranges) {
  if (!ranges.is_array()) return std::nullopt;
  int64_t i_next = 0;
  for (const auto &range : ranges) {
    if (!range.is_array() || range.size() != 2) return std::nullopt;
    const auto begin = as_integer(range[0]);
    const auto end = as_integer(range[1]);
    if (begin != i_next || !end || *end < i_next) return std::nullopt;
    i_next = *end;
  }
  return i_next;
}

constexpr const char *k_layer_replication = "layer_replication";
constexpr const char *k_other_layers = "the adapter belongs to a base with other layers";
constexpr const char *k_hint_layers =
    "make the base with its repeated layers written out, and drop "
    "the option";

std::optional<int64_t> read_layer_replication(const JsonFile &json) {
  const auto *value = json.find(k_layer_replication);
  if (value == nullptr || is_unset(*value)) return std::nullopt;
  const auto n_layer = count_layers_in_order(*value);
  if (!n_layer) refuse_option(json, k_layer_replication, k_other_layers, k_hint_layers);
  return n_layer;
}

void check_bias(const JsonFile &json) {
  const auto bias = json.get_string("bias").value_or("none");
  if (bias != "none" && bias != "all" && bias != "lora_only")
    refuse_option(json, "bias", "the name is unknown");
}

void check_options(const JsonFile &json, const AdapterLoadOptions &options) {
  check_peft_type(json);
  check_initialization(json, options);
  for (const auto &option : k_refused) {
    const auto *value = json.find(option.key);
    if (value != nullptr && !is_unset(*value))
      refuse_option(json, option.key, option.reason, option.hint);
  }
  if (json.find("enable_lora") != nullptr) {
    refuse_option(json, "enable_lora", "grouped factors of fused projections are not supported",
                  "save it again with PEFT 0.3 or newer");
  }
  check_bias(json);
}

/// Throws when the key is absent: PEFT's defaults have no meaning for a file that PEFT did not
/// write.
template <class Value>
Value required(const JsonFile &json, const char *key, std::optional<Value> value) {
  if (!value) throw LoadError({.path = json.path(), .item = key, .problem = "is missing"});
  return *value;
}

int64_t checked_rank(const JsonFile &json, const std::string &item, std::optional<int64_t> rank) {
  if (rank && *rank > 0 && *rank <= k_max_rank) return *rank;
  throw LoadError(
      {.path = json.path(), .item = item, .problem = "is no rank", .wanted = "an integer above 0"});
}

PatternTable read_pattern(const JsonFile &json, const char *option, bool are_ranks) {
  PatternTable table(json.path(), option);
  const auto *patterns = json.find(option);
  if (patterns == nullptr) return table;
  if (!patterns->is_object()) json.refuse_type(option, "an object");
  for (const auto &[key, value] : patterns->items()) {
    const auto item = fmt::format("{}['{}']", option, key);
    const auto number = as_number(value);
    if (!number) {
      throw LoadError({.path = json.path(),
                       .item = item,
                       .problem = "has a wrong type",
                       .wanted = "a finite number",
                       .found = shown(value)});
    }
    if (are_ranks) (void)checked_rank(json, item, as_integer(value));
    table.add(key, *number);
  }
  return table;
}

/// "0.18.1", "0.19.1.dev0@hash": the first three numbers; nullopt when there are no three.
std::optional<std::array<int64_t, 3>> read_version(const JsonFile &json) {
  const auto text = json.get_string("peft_version");
  if (!text) return std::nullopt;
  std::array<int64_t, 3> version{};
  const char *at = text->data();
  const char *end = text->data() + text->size();
  for (size_t i = 0; i < version.size(); ++i) {
    if (i > 0) {
      if (at == end || *at != '.') return std::nullopt;
      ++at;
    }
    const auto result = std::from_chars(at, end, version[i]);
    if (result.ec != std::errc{}) return std::nullopt;
    at = result.ptr;
  }
  return version;
}

std::vector<std::string> read_target_modules(const JsonFile &json) {
  const auto *value = json.find("target_modules");
  if (value == nullptr || value->is_string()) return {};
  return json.get_strings("target_modules").value_or(std::vector<std::string>{});
}

constexpr const char *k_invocation_tokens = "alora_invocation_tokens";

std::vector<int64_t> read_invocation_tokens(const JsonFile &json) {
  auto ids = json.get_integers(k_invocation_tokens).value_or(std::vector<int64_t>{});
  const bool below_0 = std::any_of(ids.begin(), ids.end(), [](int64_t id) { return id < 0; });
  if (below_0) refuse_option(json, k_invocation_tokens, "a token is below 0");
  return ids;
}

void check_alora(const JsonFile &json, const PeftConfig &config) {
  const auto *invocation = json.find("invocation_string");
  if (config.invocation_tokens.empty() && invocation != nullptr && !is_unset(*invocation)) {
    refuse_option(json, "invocation_string", "the tokens are needed",
                  "state them as alora_invocation_tokens");
  }
  if (!config.invocation_tokens.empty() && !config.target_parameters.empty()) {
    refuse_option(json, k_invocation_tokens, "aLoRA with target_parameters is not supported");
  }
}

std::optional<int64_t> read_qalora_group(const JsonFile &json) {
  if (!json.get_bool("use_qalora").value_or(false)) return std::nullopt;
  constexpr int64_t k_default = 16;  // of PEFT
  const int64_t group = json.get_integer("qalora_group_size").value_or(k_default);
  if (group < 1) refuse_option(json, "qalora_group_size", "a group has at least one input");
  return group;
}

/// A list of strings inside an option; empty when it is absent.
std::vector<std::string> strings_in(const JsonFile &json, const char *option, const char *key) {
  const auto &object = json.root().at(option);
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return {};
  const auto is_string = [](const ordered_json &item) { return item.is_string(); };
  if (!found->is_array() || !std::all_of(found->begin(), found->end(), is_string))
    refuse_option(json, option, fmt::format("{} is no list of names", key));
  return found->get<std::vector<std::string>>();
}

std::optional<BlockDiagonal> read_block_diagonal(const JsonFile &json) {
  constexpr const char *k_option = "use_bdlora";
  const auto *value = json.find(k_option);
  if (value == nullptr || is_unset(*value)) return std::nullopt;
  if (!value->is_object()) json.refuse_type(k_option, "an object");
  const auto n_blocks =
      value->contains("nblocks") ? as_integer(value->at("nblocks")) : std::optional<int64_t>(1);
  if (!n_blocks || *n_blocks < 1 || *n_blocks > k_max_rank)
    refuse_option(json, k_option, "nblocks is no number of blocks");
  return BlockDiagonal{.n_blocks = *n_blocks,
                       .a = strings_in(json, k_option, "target_modules_bd_a"),
                       .b = strings_in(json, k_option, "target_modules_bd_b")};
}

std::vector<TrainableTokens> read_trainable_tokens(const JsonFile &json) {
  constexpr const char *k_option = "trainable_token_indices";
  const auto *value = json.find(k_option);
  if (value == nullptr || is_unset(*value)) return {};
  const auto read_tokens = [&](const ordered_json &list) {
    std::vector<int64_t> tokens;
    if (!list.is_array()) json.refuse_type(k_option, "a list of tokens, or one for each table");
    for (const auto &item : list) {
      const auto token = as_integer(item);
      if (!token || *token < 0) refuse_option(json, k_option, "a token is no number");
      tokens.push_back(*token);
    }
    return tokens;
  };
  if (value->is_array()) return {{"embed_tokens", read_tokens(*value)}};
  if (!value->is_object()) json.refuse_type(k_option, "a list of tokens, or one for each table");
  std::vector<TrainableTokens> tables;
  for (const auto &[module, list] : value->items()) tables.push_back({module, read_tokens(list)});
  return tables;
}

/// What PEFT refuses together means nothing.
void check_combinations(const JsonFile &json, const PeftConfig &config) {
  if (!config.uses_dora) return;
  if (config.has_lora_bias)
    refuse_option(json, "use_dora", "DoRA with lora_bias has no meaning in PEFT");
  if (!config.invocation_tokens.empty())
    refuse_option(json, "use_dora", "DoRA with aLoRA has no meaning in PEFT");
  if (!config.target_parameters.empty())
    refuse_option(json, "use_dora", "DoRA with target_parameters has no meaning in PEFT");
}

void note_residual(const JsonFile &json, const AdapterLoadOptions &options,
                   std::vector<std::string> &notes) {
  const auto *init = json.find("init_lora_weights");
  if (options.base_is_residual && init != nullptr && init->is_string()) {
    notes.push_back(
        fmt::format("init_lora_weights = {}: taken as trained on this very base, as "
                    "--base-is-residual says",
                    shown(*init)));
  }
}

std::vector<std::string> note_unknown_keys(const JsonFile &json) {
  std::vector<std::string> unknown;
  for (const auto &[key, value] : json.root().items()) {
    const bool known = std::find(std::begin(k_known), std::end(k_known), key) != std::end(k_known);
    if (!known && !is_unset(value)) unknown.push_back(key);
  }
  if (unknown.empty()) return {};
  return {fmt::format("adapter_config.json has options that are unknown here and were ignored: {}",
                      first_five(unknown))};
}

}  // namespace

bool PeftConfig::targets_parameter(std::string_view parameter) const {
  return std::any_of(
      target_parameters.begin(), target_parameters.end(),
      [&](const std::string &target) { return ends_with_components(parameter, target); });
}

std::string PeftConfig::pattern_name(const std::string &module) const {
  const auto parameter = module + ".weight";
  return targets_parameter(parameter) ? parameter : module;
}

int64_t PeftConfig::rank_of(std::string_view module) const {
  const auto rank = rank_pattern.find(module);
  return rank ? static_cast<int64_t>(*rank) : n_rank;
}

double PeftConfig::scale_of(std::string_view module, int64_t n_rank_found) const {
  const auto rank = static_cast<double>(n_rank_found);
  return alpha_pattern.find(module).value_or(alpha) / (rank_stabilized ? std::sqrt(rank) : rank);
}

float PeftConfig::f32_scale_of(const std::string &module, int64_t n_rank_found) const {
  const double scale = scale_of(module, n_rank_found);
  if (std::abs(scale) <= std::numeric_limits<float>::max()) return static_cast<float>(scale);
  throw LoadError({.path = path,
                   .item = module,
                   .problem = fmt::format("has the scale {}, which overflows F32", scale)});
}

PeftConfig read_peft_config(const std::filesystem::path &path, const AdapterLoadOptions &options) {
  const auto json = JsonFile::open(path);
  check_options(json, options);
  PeftConfig config{.path = json.path(),
                    .n_rank = checked_rank(json, "r", required(json, "r", json.get_integer("r"))),
                    .alpha = required(json, "lora_alpha", json.get_number("lora_alpha")),
                    .rank_stabilized = json.get_bool("use_rslora").value_or(false),
                    .rank_pattern = read_pattern(json, "rank_pattern", true),
                    .alpha_pattern = read_pattern(json, "alpha_pattern", false),
                    .target_modules = read_target_modules(json),
                    .target_parameters =
                        json.get_strings("target_parameters").value_or(std::vector<std::string>{}),
                    .peft_version = read_version(json),
                    .ties_weights = json.get_bool("ensure_weight_tying").value_or(false),
                    .uses_dora = json.get_bool("use_dora").value_or(false),
                    .has_lora_bias = json.get_bool("lora_bias").value_or(false),
                    .qalora_group = read_qalora_group(json),
                    .block_diagonal = read_block_diagonal(json),
                    .trainable_tokens = read_trainable_tokens(json),
                    .invocation_tokens = read_invocation_tokens(json),
                    .n_layer_kept = read_layer_replication(json),
                    .base_name = json.get_string("base_model_name_or_path").value_or(""),
                    .notes = note_unknown_keys(json)};
  check_combinations(json, config);
  check_alora(json, config);
  note_residual(json, options, config.notes);
  return config;
}

void check_layers(const PeftConfig &config, const BaseInfo &base) {
  const auto n_layer = static_cast<int64_t>(base.hparams.n_layer);
  const int64_t n_kept = config.n_layer_kept.value_or(n_layer);
  if (n_kept == n_layer) return;
  throw LoadError({.path = config.path,
                   .item = k_layer_replication,
                   .problem = fmt::format("cannot be honoured: {}", k_other_layers),
                   .wanted = fmt::format("all {}", n_layer),
                   .found = fmt::format("the first {}", n_kept),
                   .hint = k_hint_layers});
}

std::vector<int32_t> invocation_tokens_for(const PeftConfig &config, const BaseInfo &base) {
  return check_invocation_tokens(config.path, k_invocation_tokens, config.invocation_tokens,
                                 base.hparams.n_vocab);
}

}  // namespace patchbay
