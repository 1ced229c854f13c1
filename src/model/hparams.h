#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace patchbay {

/// How positions are turned into rotations; the arguments of ggml_rope_ext.
struct RopeParams {
  bool neox = false;        ///< pairs (j, j + n_rot/2) instead of (2j, 2j + 1)
  float freq_base = 10000;  ///< theta
  float freq_scale = 1;     ///< 1 / factor of linear and yarn scaling
  float ext_factor = 0;     ///< 1 with yarn (arXiv 2309.00071), else 0
  float attn_factor = 1;
  float beta_fast = 32;
  float beta_slow = 1;
  uint32_t n_ctx_orig = 0;  ///< context of the training before scaling
};

/// Hyper-parameters of a decoder, as its family reads them from GGUF metadata. Plain data.
struct HParams {
  uint32_t n_vocab = 0;
  uint32_t n_ctx_train = 0;
  uint32_t n_embd = 0;
  uint32_t n_layer = 0;
  uint32_t n_head = 0;
  uint32_t n_head_kv = 0;
  uint32_t n_embd_head = 0;  ///< of q, k and v
  uint32_t n_rot = 0;        ///< rotated part of a head
  uint32_t n_ff = 0;
  uint32_t n_expert = 0;  ///< 0 for a dense model
  uint32_t n_expert_used = 0;
  float norm_rms_eps = 1e-5F;
  float embd_scale = 1;   ///< factor on embedded tokens
  float attn_scale = 0;   ///< factor on q k^T
  RopeParams rope;        ///< of layers that see the whole context
  RopeParams rope_swa;    ///< of sliding-window layers
  uint32_t n_swa = 0;     ///< window in tokens, the current one included; 0: no such layer
  std::vector<bool> swa;  ///< per layer; empty: none

  [[nodiscard]] bool is_swa(uint32_t il) const { return il < swa.size() && swa[il]; }
  [[nodiscard]] uint32_t n_embd_q() const { return n_embd_head * n_head; }
  [[nodiscard]] uint32_t n_embd_kv() const { return n_embd_head * n_head_kv; }
};

}  // namespace patchbay
