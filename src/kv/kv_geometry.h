#pragma once

#include <ggml.h>

#include <cstddef>
#include <cstdint>

#include "kv/kv_cache.h"

namespace patchbay {

/// All that the bytes of a block depend on, beside the model and the tokens. A plain value.
struct KvGeometry {
  uint32_t n_layer = 0;
  uint32_t n_head_kv = 0;
  uint32_t n_embd_head = 0;
  uint32_t n_swa = 0;
  uint32_t block_size = 0;  ///< tokens
  ggml_type type = GGML_TYPE_F16;
  KvLayout layout = KvLayout::by_token;
  uint64_t block_bytes_full = 0;
  uint64_t block_bytes_window = 0;  ///< 0: no sliding-window layers

  bool operator==(const KvGeometry &) const = default;
};

}  // namespace patchbay
