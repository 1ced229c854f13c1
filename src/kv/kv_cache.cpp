#include "kv/kv_cache.h"

#include <fmt/format.h>

#include "base/error.h"

namespace patchbay {

KvCache::KvCache(const HParams &hparams, uint32_t n_cells, ggml_type type, Memory memory)
    : context_(ggml_init({.mem_size = ggml_tensor_overhead() * 2 * hparams.n_layer,
                          .mem_buffer = nullptr,
                          .no_alloc = true})) {
  for (uint32_t il = 0; il < hparams.n_layer; ++il) {
    k_.push_back(ggml_new_tensor_2d(context_.get(), type, hparams.n_embd_kv(), n_cells));
    v_.push_back(ggml_new_tensor_2d(context_.get(), type, hparams.n_embd_kv(), n_cells));
  }
  if (memory == Memory::shapes_only) return;
  buffer_.reset(
      ggml_backend_alloc_ctx_tensors_from_buft(context_.get(), ggml_backend_cpu_buffer_type()));
  if (!buffer_) {
    throw LoadError(
        {.problem = fmt::format("not enough memory for a KV cache of {} tokens", n_cells),
         .hint = "a smaller -c needs less",
         .code = ErrorCode::out_of_memory});
  }
  ggml_backend_buffer_clear(buffer_.get(), 0);
}

void KvCache::clear(std::span<const int32_t> cells) {
  for (const auto &tensors : {k_, v_}) {
    for (ggml_tensor *tensor : tensors) {
      for (const int32_t cell : cells) {
        ggml_backend_tensor_memset(tensor, 0, static_cast<size_t>(cell) * tensor->nb[1],
                                   tensor->nb[1]);
      }
    }
  }
}

size_t KvCache::size_bytes() const {
  return buffer_ ? ggml_backend_buffer_get_size(buffer_.get()) : 0;
}

}  // namespace patchbay
