#pragma once

#include "arch/family.h"
#include "model/base_info.h"

namespace patchbay {

/// The tensor table of a family, with `weights` shaped to receive it.
[[nodiscard]] TensorTable make_tensor_table(const Family &family, const HParams &hparams,
                                            DecoderWeights &weights);

/// What a graph gives, part of it already.
struct DecoderOutputs {
  ggml_tensor *hidden = nullptr;  // F32 [n_embd, n_outputs] after the final norm
  ggml_tensor *logits = nullptr;  // F32 [n_vocab, n_logits]; null: none are wanted
};

/// Token ids to logits: embed, every layer, final norm, head.
[[nodiscard]] DecoderOutputs build_decoder(Graph &g, const Family &family,
                                           const DecoderWeights &weights);

/// The sum of a layer's input and a block's output, cut to the wanted rows after the last layer's
/// attention.
[[nodiscard]] ggml_tensor *residual_after_attention(Graph &g, uint32_t il, ggml_tensor *x,
                                                    ggml_tensor *attended);

/// What an adapter may target: the (tensor, use) pairs and the norms read by one build of the
/// graph, made without memory for it. Fills `base.uses` and `base.norms`; its hyper-parameters are
/// read.
void record_adaptable(const Family &family, const DecoderWeights &weights, BaseInfo &base);

}  // namespace patchbay
