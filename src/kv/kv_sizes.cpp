#include "kv/kv_sizes.h"

#include <fmt/format.h>
#include <ggml-backend.h>
#include <ggml-cpu.h>

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/rounding.h"

namespace patchbay {
namespace {

/// A window of n_swa tokens and n new ones touch at most ceil(n_swa / block) + ceil(n / block) + 1
/// blocks, wherever they begin; summed over the sequences of a step the second term is at most
/// ceil(n_ubatch / block) and one for each sequence.
uint64_t n_window_blocks(const HParams &hparams, const KvDemand &demand) {
  constexpr uint64_t k_cut_blocks = 2;
  const uint64_t per_seq = ceil_div(hparams.n_swa, demand.block_size) + k_cut_blocks;
  return demand.n_seqs_max * per_seq + ceil_div(demand.n_ubatch, demand.block_size);
}

KvSizes sizes_of(const HParams &hparams, const KvDemand &demand, uint32_t n_blocks) {
  KvSizes sizes{.block_size = demand.block_size, .n_blocks = n_blocks};
  if (hparams.n_swa > 0) {
    sizes.n_blocks_swa =
        static_cast<uint32_t>(std::min<uint64_t>(n_blocks, n_window_blocks(hparams, demand)));
  }
  return sizes;
}

}  // namespace

KvSizes kv_sizes(const HParams &hparams, const KvDemand &demand) {
  return sizes_of(hparams, demand, ceil_div(demand.n_ctx, demand.block_size));
}

size_t kv_bytes(const HParams &hparams, const KvSizes &sizes, ggml_type type) {
  const size_t alignment = ggml_backend_buft_get_alignment(ggml_backend_cpu_buffer_type());
  size_t bytes = 0;
  for (uint32_t il = 0; il < hparams.n_layer; ++il) {
    const size_t n_cells = hparams.is_swa(il) ? sizes.n_cells_swa() : sizes.n_cells();
    bytes += 2 * GGML_PAD(ggml_row_size(type, hparams.n_embd_kv()) * n_cells, alignment);
  }
  return bytes;
}

uint32_t kv_tokens_within(size_t memory_bytes, const HParams &hparams, const KvDemand &demand,
                          ggml_type type) {
  const auto bytes_of = [&](uint32_t n_blocks) {
    return kv_bytes(hparams, sizes_of(hparams, demand, n_blocks), type);
  };
  if (bytes_of(1) > memory_bytes) {
    throw LoadError({.problem = fmt::format("the memory for the KV cache is too small: {} bytes, "
                                            "and one block of {} tokens takes {}",
                                            memory_bytes, demand.block_size, bytes_of(1)),
                     .code = ErrorCode::out_of_memory});
  }
  uint32_t fits = 1;
  uint32_t too_many = k_max_kv_tokens / demand.block_size + 1;
  while (too_many - fits > 1) {
    const uint32_t middle = fits + (too_many - fits) / 2;
    (bytes_of(middle) <= memory_bytes ? fits : too_many) = middle;
  }
  return fits * demand.block_size;
}

}  // namespace patchbay
