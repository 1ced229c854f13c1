#pragma once

#include <string>

#include "model/hparams.h"
#include "model/tensor_table.h"
#include "model/weights.h"

namespace patchbay {

// Tensors that the blocks of all families have alike. `blk` is the prefix of the layer, "blk.0.".

/// Queries, keys, values and the projection of the heads' output.
void attention_tensors(const HParams &hp, const std::string &blk, AttentionWeights &attn,
                       TensorTable &table);

/// The gated feed-forward block of a dense layer.
void ffn_tensors(const HParams &hp, const std::string &blk, FfnWeights &ffn, TensorTable &table);

}  // namespace patchbay
