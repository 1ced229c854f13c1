#pragma once

#include <ggml.h>

#include <string>
#include <vector>

#include "model/packed_weight.h"
#include "model/rotation.h"

namespace patchbay {

/// One weight of a model. `name` is its identity for adapters, also where another tensor holds the
/// numbers (a tied head is named output.weight). The tensor is a view: the WeightStore owns it. No
/// tensor: the model does not have this weight. Packed: products read that, and unless it is looked
/// up too the tensor is a type and a shape without data. A rotation: the rows are stored
/// Hadamard-folded, and only the seam in graph/ may read them.
struct Weight {
  std::string name;
  ggml_tensor *tensor = nullptr;
  const PackedWeight *packed = nullptr;  ///< a view: the WeightStore owns it
  const Rotation *rotation = nullptr;    ///< a view: the RotationStore owns it

  explicit operator bool() const { return tensor != nullptr; }
};

/// A linear layer, y = W x + b.
struct LinearWeights {
  Weight weight;  // [n_in, n_out]
  Weight bias;    // F32 [n_out], optional
};

struct AttentionWeights {
  LinearWeights q;       // [n_embd, n_embd_head * n_head]
  LinearWeights k;       // [n_embd, n_embd_head * n_head_kv]
  LinearWeights v;       // [n_embd, n_embd_head * n_head_kv]
  LinearWeights output;  // [n_embd_head * n_head, n_embd]
  Weight q_norm;         // F32 [n_embd_head], optional
  Weight k_norm;         // F32 [n_embd_head], optional
};

struct FfnWeights {
  LinearWeights gate;  // [n_embd, n_ff]
  LinearWeights up;    // [n_embd, n_ff]
  LinearWeights down;  // [n_ff, n_embd]
};

struct MoeWeights {
  LinearWeights router;  // [n_embd, n_expert]
  Weight gate;           // [n_embd, n_ff, n_expert]
  Weight up;             // [n_embd, n_ff, n_expert]
  Weight down;           // [n_ff, n_embd, n_expert]
};

struct DecoderLayer {
  Weight attn_norm;  // all norms: F32 [n_embd]
  AttentionWeights attn;
  Weight post_attn_norm;
  Weight ffn_norm;
  FfnWeights ffn;  // of a dense layer
  MoeWeights moe;  // of a layer with experts
  Weight post_ffn_norm;
};

/// All weights of a decoder-only transformer; members that a family does not have stay empty.
struct DecoderWeights {
  Weight token_embd;  // [n_embd, n_vocab]
  std::vector<DecoderLayer> layers;
  Weight output_norm;  // F32 [n_embd]
  Weight output;       // [n_embd, n_vocab]; the tensor of token_embd when tied
  Weight rope_freqs;   // F32 [n_rot / 2], optional: divisors of the rope frequencies (Llama 3)
};

}  // namespace patchbay
