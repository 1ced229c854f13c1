#pragma once

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

/// One line of a family's table. In both names `#` stands for the layer and `@` for the expert.
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

/// A vector that is no bias of a linear module: a norm, for the most part.
struct VectorRow {
  std::string_view hf_path;  ///< of the parameter, as in NameRow: "layers.#.input_layernorm.weight"
  std::string_view target;   ///< GGUF name, "blk.#.attn_norm.weight"
  bool plus_one = false;     ///< GGUF holds 1 + what Hugging Face holds
};

/// How the modules of a family's Hugging Face models are called there and in GGUF. Views of
/// constants.
struct HfNames {
  std::span<const NameRow> rows;
  std::span<const FusedRow> fused;
  std::span<const VectorRow> vectors = {};
};

}  // namespace patchbay
