#pragma once

#include <ggml-cpp.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kv/block_tables.h"
#include "kv/kv_sizes.h"
#include "model/hparams.h"

namespace patchbay {

/// The cache tensors: keys and values of every layer, one row per cell, a block's cells side by
/// side. Which block is whose is the KvTables' business.
class KvCache {
 public:
  enum class Memory { allocate, shapes_only };

  /// `type`: F16, F32 or Q8_0. Throws LoadError: the buffer cannot be had (out_of_memory), or the
  /// heads do not divide into the blocks of `type` (invalid_argument). With Memory::shapes_only the
  /// tensors have no data, for graphs that are only looked at.
  KvCache(const HParams &hparams, const KvSizes &sizes, ggml_type type,
          Memory memory = Memory::allocate);

  // [n_embd_kv, n_cells]; n_cells is that of the layer's pool.
  [[nodiscard]] ggml_tensor *k(uint32_t il) const { return layers_[il].k; }
  [[nodiscard]] ggml_tensor *v(uint32_t il) const { return layers_[il].v; }
  [[nodiscard]] size_t size_bytes() const;

  /// Copies whole blocks, in the layers that see everything and in the sliding-window layers.
  void copy(std::span<const BlockCopy> full, std::span<const BlockCopy> window);

 private:
  struct Layer {
    ggml_tensor *k = nullptr;
    ggml_tensor *v = nullptr;
    bool is_swa = false;
  };

  uint32_t block_size_;
  ggml_context_ptr context_;
  ggml_backend_buffer_ptr buffer_;
  std::vector<Layer> layers_;
};

}  // namespace patchbay
