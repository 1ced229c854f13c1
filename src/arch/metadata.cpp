#include "arch/metadata.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text.h"

namespace patchbay {
namespace {

constexpr uint32_t k_max_layers = 1024;
constexpr uint32_t k_max_width = 1U << 20;
constexpr uint32_t k_max_heads = 4096;
constexpr uint32_t k_max_head_width = 1024;
constexpr uint32_t k_max_context = 1U << 26;

uint32_t vocabulary_size(const GgufFile &file) {
  const GgufTensor *table = file.find_tensor("token_embd.weight");
  if (table == nullptr)
    throw LoadError({.path = file.path(), .item = "token_embd.weight", .problem = "is missing"});
  constexpr int64_t k_max_vocab = 1 << 24;
  if (table->ne[1] > k_max_vocab) {
    throw LoadError({.path = file.path(),
                     .item = "token_embd.weight",
                     .problem = "has more rows than any vocabulary",
                     .wanted = fmt::format("at most {}", k_max_vocab),
                     .found = fmt::format("{}", table->ne[1])});
  }
  return static_cast<uint32_t>(table->ne[1]);
}

void read_heads(const ArchMetadata &metadata, HParams &hp) {
  hp.n_head = metadata.uniform_count("attention.head_count", k_max_heads);
  hp.n_head_kv = metadata.uniform_count_or("attention.head_count_kv", k_max_heads, hp.n_head);
  if (hp.n_head % hp.n_head_kv != 0) {
    metadata.refuse("attention.head_count_kv", fmt::format("a divisor of {} heads", hp.n_head),
                    fmt::format("{}", hp.n_head_kv));
  }
  hp.n_embd_head =
      metadata.count_or("attention.key_length", k_max_head_width, hp.n_embd / hp.n_head);
  const uint32_t n_embd_head_v =
      metadata.count_or("attention.value_length", k_max_head_width, hp.n_embd_head);
  if (n_embd_head_v != hp.n_embd_head) {
    metadata.refuse("attention.value_length", fmt::format("{}, the key length", hp.n_embd_head),
                    fmt::format("{}", n_embd_head_v));
  }
  if (hp.n_embd_head == 0 || hp.n_embd_head % 2 != 0) {
    metadata.refuse("attention.key_length", "an even number", fmt::format("{}", hp.n_embd_head));
  }
  hp.n_rot = metadata.count_or("rope.dimension_count", k_max_head_width, hp.n_embd_head);
  if (hp.n_rot > hp.n_embd_head || hp.n_rot % 2 != 0) {
    metadata.refuse("rope.dimension_count", fmt::format("an even number up to {}", hp.n_embd_head),
                    fmt::format("{}", hp.n_rot));
  }
}

/// 1 / factor. Before rope.scaling.* there was rope.scale_linear.
float read_freq_scale(const ArchMetadata &metadata) {
  const bool is_new = metadata.file().has(metadata.key("rope.scaling.factor"));
  const char *name = is_new ? "rope.scaling.factor" : "rope.scale_linear";
  const float factor = metadata.positive_or(name, 1);
  const float freq_scale = 1 / factor;
  if (!std::isnormal(freq_scale)) {
    metadata.refuse(name, "a factor with a reciprocal", fmt::format("{}", factor));
  }
  return freq_scale;
}

RopeParams read_rope(const ArchMetadata &metadata, uint32_t n_ctx_train) {
  RopeParams rope;
  rope.freq_base = metadata.positive_or("rope.freq_base", rope.freq_base);
  rope.n_ctx_orig =
      metadata.count_or("rope.scaling.original_context_length", k_max_context, n_ctx_train);
  // A factor without a type has always meant linear.
  const std::string type = metadata.text_or("rope.scaling.type", "linear");
  if (type == "none") return rope;
  if (type != "linear" && type != "yarn")
    metadata.refuse("rope.scaling.type", "none, linear or yarn", type);
  rope.freq_scale = read_freq_scale(metadata);
  if (type == "yarn") {
    rope.ext_factor = metadata.finite_or("rope.scaling.yarn_ext_factor", 1);
    rope.attn_factor = metadata.positive_or("rope.scaling.yarn_attn_factor", 1);
    rope.beta_fast = metadata.positive_or("rope.scaling.yarn_beta_fast", rope.beta_fast);
    rope.beta_slow = metadata.positive_or("rope.scaling.yarn_beta_slow", rope.beta_slow);
  }
  rope.attn_factor *= metadata.positive_or("rope.scaling.attn_factor", 1);
  if (!std::isnormal(rope.attn_factor)) {
    metadata.refuse("rope.scaling.attn_factor", "a product with yarn_attn_factor that F32 can hold",
                    fmt::format("{}", rope.attn_factor));
  }
  return rope;
}

}  // namespace

uint32_t ArchMetadata::count(std::string_view name, uint32_t max) const {
  const uint32_t value = file_.require_u32(key(name), max);
  if (value == 0) refuse(name, "at least 1", "0");
  return value;
}

uint32_t ArchMetadata::count_or(std::string_view name, uint32_t max, uint32_t fallback) const {
  return file_.has(key(name)) ? count(name, max) : fallback;
}

uint32_t ArchMetadata::uniform_count(std::string_view name, uint32_t max) const {
  const GgufEntry *entry = file_.find_entry(key(name));
  if (entry == nullptr || entry->type != GgufType::array) return count(name, max);
  const auto values = file_.get_ints(key(name)).value_or(std::vector<int64_t>{});
  const bool uniform = !values.empty() &&
                       std::ranges::all_of(values, [&](int64_t v) { return v == values.front(); });
  if (!uniform || values.front() < 1 || values.front() > max) {
    refuse(name, fmt::format("one number from 1 to {} for all layers", max), first_five(values));
  }
  return static_cast<uint32_t>(values.front());
}

uint32_t ArchMetadata::uniform_count_or(std::string_view name, uint32_t max,
                                        uint32_t fallback) const {
  return file_.has(key(name)) ? uniform_count(name, max) : fallback;
}

float ArchMetadata::positive(std::string_view name) const {
  const double value = file_.require_f64(key(name));
  // Checked as float: a double can be positive and still vanish.
  const auto narrow = static_cast<float>(value);
  if (!std::isfinite(narrow) || narrow <= 0)
    refuse(name, "a number above 0", fmt::format("{}", value));
  return narrow;
}

float ArchMetadata::positive_or(std::string_view name, float fallback) const {
  return file_.has(key(name)) ? positive(name) : fallback;
}

float ArchMetadata::finite_or(std::string_view name, float fallback) const {
  const double value = file_.get_f64(key(name)).value_or(fallback);
  const auto narrow = static_cast<float>(value);
  if (!std::isfinite(narrow)) refuse(name, "a finite number", fmt::format("{}", value));
  return narrow;
}

std::string ArchMetadata::text_or(std::string_view name, std::string fallback) const {
  return file_.get_string(key(name)).value_or(std::move(fallback));
}

void ArchMetadata::refuse(std::string_view name, std::string wanted, std::string found) const {
  throw LoadError({.path = file_.path(),
                   .item = key(name),
                   .problem = "has a value that cannot be used",
                   .wanted = std::move(wanted),
                   .found = std::move(found)});
}

HParams read_common_hparams(const ArchMetadata &metadata) {
  HParams hp;
  hp.n_vocab = vocabulary_size(metadata.file());
  hp.n_ctx_train = metadata.count("context_length", k_max_context);
  hp.n_embd = metadata.count("embedding_length", k_max_width);
  hp.n_layer = metadata.count("block_count", k_max_layers);
  hp.n_ff = metadata.uniform_count("feed_forward_length", k_max_width);
  hp.norm_rms_eps = metadata.positive("attention.layer_norm_rms_epsilon");
  read_heads(metadata, hp);
  hp.rope = read_rope(metadata, hp.n_ctx_train);
  hp.rope_swa = hp.rope;
  hp.attn_scale = 1 / std::sqrt(static_cast<float>(hp.n_embd_head));
  return hp;
}

}  // namespace patchbay
