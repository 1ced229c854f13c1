#pragma once

#include <ggml-cpp.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kv/block_memory.h"
#include "kv/block_tables.h"
#include "kv/kv_sizes.h"
#include "model/hparams.h"

namespace patchbay {

/// How the numbers of a block lie. Either way a block is one stretch of memory.
enum class KvLayout {
  by_token,  ///< a token's heads side by side: tensors [n_embd_kv, n_cells]
  by_head,   ///< a head's tokens side by side, for readers that take one head at a time: tensors
             ///< [n_embd_head, n_cells * n_head_kv], row (block * n_head_kv + head) * block_size +
             ///< offset
};

/// The cache tensors: keys and values of every layer. Which block is whose is the KvTables'
/// business.
class KvCache : public BlockMemory {
 public:
  enum class Memory { allocate, shapes_only };

  /// `type`: F16, F32 or Q8_0. Throws LoadError: the buffer cannot be had (out_of_memory), or the
  /// heads do not divide into the blocks of `type` (invalid_argument). With Memory::shapes_only the
  /// tensors have no data, for graphs that are only looked at.
  KvCache(const HParams &hparams, const KvSizes &sizes, ggml_type type,
          KvLayout layout = KvLayout::by_token, Memory memory = Memory::allocate);

  // As the layout has them; n_cells is that of the layer's pool.
  [[nodiscard]] ggml_tensor *k(uint32_t il) const { return layers_[il].k; }
  [[nodiscard]] ggml_tensor *v(uint32_t il) const { return layers_[il].v; }
  [[nodiscard]] uint32_t block_size() const { return block_size_; }
  [[nodiscard]] KvLayout layout() const { return layout_; }
  [[nodiscard]] size_t size_bytes() const;

  /// Copies whole blocks, in the layers that see everything and in the sliding-window layers.
  void copy(std::span<const BlockCopy> full_copies, std::span<const BlockCopy> window_copies);

  // Layer by layer, k before v, as they lie: bit for bit in the cache's own type.
  [[nodiscard]] size_t block_bytes(Part part) const override;
  void read_block(Part part, int32_t block, std::span<std::byte> bytes) const override;
  void write_block(Part part, int32_t block, std::span<const std::byte> bytes) override;
  void clear_after(Part part, uint32_t n_tokens, std::span<std::byte> bytes) const override;

 private:
  struct Layer {
    ggml_tensor *k = nullptr;
    ggml_tensor *v = nullptr;
    size_t block_bytes = 0;  // of k, and of v
    bool is_swa = false;

    [[nodiscard]] bool is_in(Part part) const { return is_swa == (part == window); }
    [[nodiscard]] std::byte *block_of(ggml_tensor *tensor, int32_t block) const {
      return static_cast<std::byte *>(tensor->data) + static_cast<size_t>(block) * block_bytes;
    }
  };

  uint32_t block_size_;
  uint32_t n_head_kv_;
  KvLayout layout_;
  ggml_context_ptr context_;
  ggml_backend_buffer_ptr buffer_;
  std::vector<Layer> layers_;
};

/// The rows of the cache tensors that tokens at `places` write, in order of token and then head.
[[nodiscard]] std::vector<int64_t> rows_written(KvLayout layout, uint32_t n_head_kv,
                                                const BlockTables &tables,
                                                std::span<const SeqPos> places);

}  // namespace patchbay
