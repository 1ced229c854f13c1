#pragma once

#include <ggml-cpp.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/hparams.h"

namespace patchbay {

/// The cache tensors: keys and values of every layer, one row per cell. Which cell is whose is the
/// CellTable's business.
class KvCache {
 public:
  enum class Memory { allocate, shapes_only };

  /// `type`: F16 or F32. Throws LoadError (out_of_memory) when the buffer cannot be had. With
  /// Memory::shapes_only the tensors have no data, for graphs that are only looked at.
  KvCache(const HParams &hparams, uint32_t n_cells, ggml_type type,
          Memory memory = Memory::allocate);

  [[nodiscard]] ggml_tensor *k(uint32_t il) const { return k_[il]; }  // [n_embd_kv, n_cells]
  [[nodiscard]] ggml_tensor *v(uint32_t il) const { return v_[il]; }  // [n_embd_kv, n_cells]
  [[nodiscard]] size_t size_bytes() const;

  /// Zeroes cells that no sequence uses any more. Masked cells still meet the values of others as 0
  /// * v in tiled attention, so an infinity left behind by one request would turn another one's
  /// numbers into NaN.
  void clear(std::span<const int32_t> cells);

 private:
  ggml_context_ptr context_;
  ggml_backend_buffer_ptr buffer_;
  std::vector<ggml_tensor *> k_;
  std::vector<ggml_tensor *> v_;
};

}  // namespace patchbay
