#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace patchbay {

/// What the converter of the base did to the rows of a weight, and what must be done to the rows of
/// an adapter's B.
enum class RowPlan {
  as_is,
  rotary_q,   ///< reordered per query head
  rotary_kv,  ///< reordered per key head
};

/// One line of a family's table. In both names `#` stands for the layer and `@` for the expert. Of
/// several lines for one module the first counts whose weight the base has. A bias of the module is
/// the weight's name with .bias at its end, and has the same plan.
struct NameRow {
  /// Path without the levels that only some wrappers have: "layers.#.mlp".
  std::string_view hf_path;
  std::string_view target;  ///< AdaptableUse::name
  RowPlan plan = RowPlan::as_is;
};

/// A parameter that holds one weight of all experts, [n_expert, n_out, n_in] in torch order,
/// possibly two GGUF weights one below the other. Rows of one module stand in the order in which
/// the module registers its parameters.
struct FusedRow {
  std::string_view hf_path;  ///< as in NameRow
  std::string_view parameter;
  std::string_view target;         ///< of the rows, or of their first half
  std::string_view second_target;  ///< of the second half; may be empty
};

/// How a module's rows are dealt to two weights.
enum class SplitPlan {
  halves,  ///< the first half of the rows, then the second
  /// DeepSeek's kv_b_proj, per head: the first rows, transposed, [n_first, n_in, n_head]; then the
  /// others, [n_in, n_rows, n_head].
  key_value_heads,
};

/// A linear module that is two weights in GGUF.
struct SplitRow {
  std::string_view hf_path;  ///< as in NameRow
  std::string_view target;
  std::string_view second_target;
  SplitPlan plan = SplitPlan::halves;
};

/// A linear module whose rows are those of others, one below the other. Which of the two a model
/// has depends on its family, and which of the two a GGUF file holds on how it was made: an adapter
/// of the one fits a base of the other.
struct JoinedRow {
  std::string_view hf_path;                    ///< of the whole, as in NameRow
  std::string_view target;                     ///< of the whole
  std::array<std::string_view, 3> part_paths;  ///< the last may be empty
  std::array<std::string_view, 3> part_targets;

  [[nodiscard]] size_t n_parts() const { return part_paths.back().empty() ? 2 : 3; }
};

/// A vector that is no bias of a linear module: a norm, for the most part.
struct VectorRow {
  std::string_view hf_path;  ///< of the parameter, as in NameRow: "layers.#.input_layernorm.weight"
  std::string_view target;   ///< GGUF name, "blk.#.attn_norm.weight"
  bool plus_one = false;     ///< GGUF holds 1 + what Hugging Face holds
};

/// What a config.json of the family need not say, as transformers 5 has it.
struct HfDefaults {
  int64_t n_embd_head = 0;       ///< width of a head; 0: n_embd / n_head
  bool ties_head = false;        ///< tie_word_embeddings
  bool norms_all_heads = false;  ///< the norms of q and k are over all heads, not over each
};

/// How the modules of a family's Hugging Face models are called there and in GGUF. Where a weight
/// has several names, that of today's transformers stands first. Views of constants.
struct HfNames {
  std::span<const NameRow> rows;
  std::span<const FusedRow> fused;
  std::span<const SplitRow> splits = {};
  std::span<const VectorRow> vectors = {};
  HfDefaults defaults = {};
};

}  // namespace patchbay
