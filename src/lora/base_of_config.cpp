#include "lora/base_of_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "lora/json_file.h"
#include "lora/peft_folder.h"
#include "lora/peft_names.h"
#include "model/hf_families.h"

namespace patchbay {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr int64_t k_max_size = 1 << 24;
constexpr int64_t k_max_layers = 1024;

/// The part of a config.json that describes the text model.
class TextConfig {
 public:
  explicit TextConfig(const JsonFile &json) : json_(json), text_(&json.root()) {
    const auto *text = json.find("text_config");
    if (text != nullptr && text->is_object()) text_ = text;
  }

  [[nodiscard]] const std::string &path() const { return json_.path(); }

  /// The value of `key`, looked for in the whole model's part too; nullptr: absent or null.
  [[nodiscard]] const ordered_json *find(const std::string &key) const {
    const auto found = text_->find(key);
    if (found != text_->end() && !found->is_null()) return &*found;
    return json_.find(key);
  }

  [[nodiscard]] std::string model_type() const {
    const auto *type = find("model_type");
    return type != nullptr && type->is_string() ? type->get<std::string>() : std::string();
  }

  [[nodiscard]] bool flag(const std::string &key, bool fallback) const {
    const auto *value = find(key);
    return value == nullptr ? fallback : value->is_boolean() && value->get<bool>();
  }

  /// 0 when it is absent. Throws LoadError when it is no size.
  [[nodiscard]] int64_t size_or_0(const std::string &key) const {
    const auto *value = find(key);
    if (value == nullptr) return 0;
    const auto number = as_integer(*value);
    if (number && *number >= 0 && *number <= k_max_size) return *number;
    throw LoadError({.path = path(),
                     .item = key,
                     .problem = "is no size",
                     .wanted = fmt::format("an integer from 0 to {}", k_max_size),
                     .found = shown(*value)});
  }

  [[nodiscard]] int64_t size_or(const std::string &key, int64_t fallback) const {
    const int64_t size = size_or_0(key);
    return size > 0 ? size : fallback;
  }

  /// Throws LoadError when it is absent or 0.
  [[nodiscard]] int64_t size(const std::string &key) const {
    const int64_t found = size_or_0(key);
    if (found > 0) return found;
    throw LoadError({.path = path(), .item = key, .problem = "is missing"});
  }

  [[nodiscard]] std::vector<int64_t> sizes(const std::string &key) const {
    std::vector<int64_t> found;
    const auto *list = find(key);
    if (list == nullptr || !list->is_array()) return found;
    for (const auto &item : *list) found.push_back(as_integer(item).value_or(-1));
    return found;
  }

 private:
  const JsonFile &json_;
  const ordered_json *text_;
};

/// Adds what one model holds to a BaseInfo: of the weights that models are made of, those that the
/// family's table names.
class Uses {
 public:
  Uses(const TextConfig &config, BaseInfo &base)
      : config_(config), base_(base), n_embd_(config.size("hidden_size")) {}

  void tables() {
    const int64_t n_vocab = config_.size("vocab_size");
    base_.uses.push_back(
        {.name = "token_embd.weight", .kind = UseKind::embed, .ne = {n_embd_, n_vocab, 1}});
    base_.uses.push_back({.name = "output.weight", .ne = {n_embd_, n_vocab, 1}});
  }

  /// Those of the family's table that this model has.
  void norms() {
    for (const auto &row : base_.hf_names->vectors) {
      const std::string_view target = row.target;
      const bool of_layers = target.find('#') != std::string_view::npos;
      const int64_t n_numbers = norm_size(target);
      for (int64_t il = 0; n_numbers > 0 && il < (of_layers ? base_.hparams.n_layer : 1); ++il)
        base_.norms.push_back({.name = with_layer(target, il), .n = n_numbers});
    }
  }

  void layer(int64_t il) {
    blk_ = fmt::format("blk.{}.", il);
    attention();
    if (has_experts(il)) {
      experts();
    } else {
      dense();
    }
  }

 private:
  [[nodiscard]] bool family_has(std::string_view stem) const {
    const auto target = fmt::format("blk.#.{}.weight", stem);
    const auto is_it = [&](const auto &row) { return row.target == target; };
    return std::ranges::any_of(base_.hf_names->rows, is_it) ||
           std::ranges::any_of(base_.hf_names->splits, is_it);
  }

  void linear(const char *stem, int64_t n_in, int64_t n_out) {
    base_.uses.push_back({.name = blk_ + stem + ".weight", .ne = {n_in, n_out, 1}});
  }
  void stacked(const char *stem, int64_t n_in, int64_t n_out, int64_t n) {
    base_.uses.push_back(
        {.name = blk_ + stem + ".weight", .kind = UseKind::experts, .ne = {n_in, n_out, n}});
  }
  void gated(const std::string &suffix, int64_t n_ff) {
    linear(("ffn_gate" + suffix).c_str(), n_embd_, n_ff);
    linear(("ffn_up" + suffix).c_str(), n_embd_, n_ff);
    linear(("ffn_down" + suffix).c_str(), n_ff, n_embd_);
  }

  /// 0: this model has no such norm.
  [[nodiscard]] int64_t norm_size(std::string_view target) const {
    const int64_t n_head = base_.hparams.n_embd_head;
    const bool over_heads = base_.hf_names->defaults.norms_all_heads;
    if (target.ends_with("attn_q_norm.weight"))
      return over_heads ? n_head * base_.hparams.n_head : n_head;
    if (target.ends_with("attn_k_norm.weight"))
      return over_heads ? n_head * base_.hparams.n_head_kv : n_head;
    if (target.ends_with("attn_q_a_norm.weight")) return config_.size_or_0("q_lora_rank");
    if (target.ends_with("attn_kv_a_norm.weight")) return config_.size_or_0("kv_lora_rank");
    return n_embd_;
  }

  void attention() {
    if (family_has("attn_kv_a_mqa")) return latent_attention();
    const int64_t n_q = int64_t{base_.hparams.n_embd_head} * base_.hparams.n_head;
    const int64_t n_kv = int64_t{base_.hparams.n_embd_head} * base_.hparams.n_head_kv;
    if (family_has("attn_qkv")) {
      linear("attn_qkv", n_embd_, n_q + 2 * n_kv);
    } else {
      linear("attn_q", n_embd_, n_q);
      linear("attn_k", n_embd_, n_kv);
      linear("attn_v", n_embd_, n_kv);
    }
    linear("attn_output", n_q, n_embd_);
  }

  /// DeepSeek-V2 (arXiv 2405.04434, section 2.1): queries, if at all, and keys with values go
  /// through narrow projections.
  void latent_attention() {
    const int64_t n_head = base_.hparams.n_head;
    const int64_t n_nope = config_.size("qk_nope_head_dim");
    const int64_t n_rope = config_.size("qk_rope_head_dim");
    const int64_t n_value = config_.size("v_head_dim");
    const int64_t n_latent = config_.size("kv_lora_rank");
    const int64_t n_latent_q = config_.size_or_0("q_lora_rank");
    if (n_latent_q > 0) {
      linear("attn_q_a", n_embd_, n_latent_q);
      linear("attn_q_b", n_latent_q, n_head * (n_nope + n_rope));
    } else {
      linear("attn_q", n_embd_, n_head * (n_nope + n_rope));
    }
    linear("attn_kv_a_mqa", n_embd_, n_latent + n_rope);
    stacked("attn_k_b", n_nope, n_latent, n_head);
    stacked("attn_v_b", n_latent, n_value, n_head);
    linear("attn_output", n_head * n_value, n_embd_);
  }

  [[nodiscard]] bool has_experts(int64_t il) const {
    if (base_.hparams.n_expert == 0) return false;
    // DeepSeek's way to say it, and Qwen's.
    const auto dense_layers = config_.sizes("mlp_only_layers");
    return il >= config_.size_or_0("first_k_dense_replace") &&
           il % config_.size_or("moe_layer_freq", 1) == 0 &&
           std::ranges::find(dense_layers, il) == dense_layers.end() &&
           (il + 1) % config_.size_or("decoder_sparse_step", 1) == 0;
  }

  void dense() {
    const int64_t n_ff = config_.size_or("shared_intermediate_size", base_.hparams.n_ff);
    if (family_has("ffn_gate")) return gated("", n_ff);
    linear("ffn_up", n_embd_, 2 * n_ff);  // with the gate
    linear("ffn_down", n_ff, n_embd_);
  }

  void experts() {
    const int64_t n_expert = base_.hparams.n_expert;
    const int64_t n_ff = config_.size_or("moe_intermediate_size", base_.hparams.n_ff);
    linear("ffn_gate_inp", n_embd_, n_expert);
    stacked("ffn_gate_exps", n_embd_, n_ff, n_expert);
    stacked("ffn_up_exps", n_embd_, n_ff, n_expert);
    stacked("ffn_down_exps", n_ff, n_embd_, n_expert);
    if (!family_has("ffn_down_shexp")) return;
    if (const int64_t n_shared = shared_width(n_ff); n_shared > 0) gated("_shexp", n_shared);
    if (family_has("ffn_gate_inp_shexp")) linear("ffn_gate_inp_shexp", n_embd_, 1);
  }

  /// Qwen's and Granite's way to say how wide the shared expert is, and DeepSeek's. 0: there is
  /// none.
  [[nodiscard]] int64_t shared_width(int64_t n_ff_expert) const {
    for (const char *key : {"shared_expert_intermediate_size", "shared_intermediate_size"}) {
      if (const int64_t n = config_.size_or_0(key); n > 0) return n;
    }
    return n_ff_expert * config_.size_or_0("n_shared_experts");
  }

  const TextConfig &config_;
  BaseInfo &base_;
  int64_t n_embd_;
  std::string blk_;
};

HParams read_sizes(const TextConfig &config, const HfDefaults &defaults) {
  HParams hp;
  const auto narrow = [](int64_t size) { return static_cast<uint32_t>(size); };
  hp.n_vocab = narrow(config.size("vocab_size"));
  hp.n_embd = narrow(config.size("hidden_size"));
  hp.n_layer = narrow(config.size("num_hidden_layers"));
  hp.n_head = narrow(config.size("num_attention_heads"));
  hp.n_head_kv = narrow(config.size_or("num_key_value_heads", hp.n_head));
  const int64_t n_embd_head =
      defaults.n_embd_head > 0 ? defaults.n_embd_head : hp.n_embd / hp.n_head;
  hp.n_embd_head = narrow(config.size_or("head_dim", n_embd_head));
  hp.n_ff = narrow(config.size("intermediate_size"));
  for (const char *key : {"num_local_experts", "num_experts", "n_routed_experts"}) {
    if (hp.n_expert == 0) hp.n_expert = narrow(config.size_or_0(key));
  }
  if (int64_t{hp.n_layer} <= k_max_layers) return hp;
  throw LoadError({.path = config.path(),
                   .item = "num_hidden_layers",
                   .problem = "is no number of layers",
                   .wanted = fmt::format("at most {}", k_max_layers),
                   .found = std::to_string(hp.n_layer)});
}

}  // namespace

BaseInfo base_of_config(const fs::path &folder) {
  const auto json = JsonFile::open(folder / "config.json");
  const TextConfig config(json);
  const auto model_type = config.model_type();
  const auto arch = arch_of_model_type(model_type);
  if (arch.empty()) {
    throw LoadError({.path = json.path(),
                     .item = "model_type",
                     .problem = "has no table of names here",
                     .found = model_type});
  }
  BaseInfo base{.path = json.path(), .arch = std::string(arch), .name = folder_name(folder)};
  base.hf_names = find_hf_names(arch);
  const HfDefaults &defaults = base.hf_names->defaults;
  base.hparams = read_sizes(config, defaults);
  base.tied_head = config.flag("tie_word_embeddings", defaults.ties_head);
  Uses uses(config, base);
  uses.tables();
  uses.norms();
  for (int64_t il = 0; il < int64_t{base.hparams.n_layer}; ++il) uses.layer(il);
  return base;
}

}  // namespace patchbay
