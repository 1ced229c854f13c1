#pragma once

#include <ggml.h>

#include <cstddef>
#include <cstdint>

#include "model/hparams.h"

namespace patchbay {

/// More than any model's context, and little enough for 32-bit positions and for the memory of the
/// tables themselves.
inline constexpr uint32_t k_max_kv_tokens = 1U << 26U;

/// What the cache has to serve.
struct KvDemand {
  uint32_t n_ctx = 4096;     ///< tokens over all sequences, and at most in one
  uint32_t n_seqs_max = 16;  ///< sequences at the same time
  uint32_t n_ubatch = 256;   ///< tokens of a step
  uint32_t block_size = 32;  ///< tokens per block
};

/// How many blocks there are.
struct KvSizes {
  uint32_t block_size = 1;
  uint32_t n_blocks = 0;      ///< for the layers that see everything
  uint32_t n_blocks_swa = 0;  ///< for the sliding-window layers, if there are any

  [[nodiscard]] uint32_t n_cells() const { return n_blocks * block_size; }
  [[nodiscard]] uint32_t n_cells_swa() const { return n_blocks_swa * block_size; }

  bool operator==(const KvSizes &) const = default;
};

/// Blocks for a demand. Sliding-window layers get enough for the windows of all sequences and one
/// step more, so that theirs never run out before those of the other layers.
[[nodiscard]] KvSizes kv_sizes(const HParams &hparams, const KvDemand &demand);

/// The memory that a cache of these sizes takes, exactly. Any thread.
[[nodiscard]] size_t kv_bytes(const HParams &hparams, const KvSizes &sizes, ggml_type type);

/// The most tokens, in whole blocks, whose cache fits into `memory_bytes`; demand.n_ctx is not
/// read. Throws LoadError when not even one block fits.
[[nodiscard]] uint32_t kv_tokens_within(size_t memory_bytes, const HParams &hparams,
                                        const KvDemand &demand, ggml_type type);

}  // namespace patchbay
