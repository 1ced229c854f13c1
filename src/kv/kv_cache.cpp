#include "kv/kv_cache.h"

#include <fmt/format.h>

#include <cassert>
#include <cstring>

#include "base/error.h"

namespace patchbay {
namespace {

void check_type(const HParams &hparams, ggml_type type) {
  if (type != GGML_TYPE_F16 && type != GGML_TYPE_F32 && type != GGML_TYPE_Q8_0) {
    throw LoadError(
        {.problem = fmt::format("a KV cache of type {} is not supported", ggml_type_name(type)),
         .wanted = "f16, f32 or q8_0"});
  }
  if (hparams.n_embd_head % ggml_blck_size(type) == 0) return;
  throw LoadError({.problem = fmt::format("a KV cache of type {} needs heads of a multiple of {}",
                                          ggml_type_name(type), ggml_blck_size(type)),
                   .found = fmt::format("{}", hparams.n_embd_head),
                   .hint = "f16 fits every model"});
}

}  // namespace

KvCache::KvCache(const HParams &hparams, const KvSizes &sizes, ggml_type type, KvLayout layout,
                 Memory memory)
    : block_size_(sizes.block_size),
      n_head_kv_(hparams.n_head_kv),
      layout_(layout),
      context_(ggml_init({.mem_size = ggml_tensor_overhead() * 2 * hparams.n_layer,
                          .mem_buffer = nullptr,
                          .no_alloc = true})) {
  check_type(hparams, type);
  for (uint32_t il = 0; il < hparams.n_layer; ++il) {
    const bool is_swa = hparams.is_swa(il);
    const uint32_t n_cells = is_swa ? sizes.n_cells_swa() : sizes.n_cells();
    const auto rows = [&] {
      return layout == KvLayout::by_token
                 ? ggml_new_tensor_2d(context_.get(), type, hparams.n_embd_kv(), n_cells)
                 : ggml_new_tensor_2d(context_.get(), type, hparams.n_embd_head,
                                      int64_t{n_cells} * hparams.n_head_kv);
    };
    layers_.push_back({.k = rows(),
                       .v = rows(),
                       .block_bytes = ggml_row_size(type, hparams.n_embd_kv()) * block_size_,
                       .is_swa = is_swa});
  }
  if (memory == Memory::shapes_only) return;
  buffer_.reset(
      ggml_backend_alloc_ctx_tensors_from_buft(context_.get(), ggml_backend_cpu_buffer_type()));
  if (!buffer_) {
    throw LoadError(
        {.problem = fmt::format("not enough memory for a KV cache of {} tokens", sizes.n_cells()),
         .hint = "a smaller -c needs less",
         .code = ErrorCode::out_of_memory});
  }
  // Attention under a mask multiplies what it hides by 0, also cells that were never written. By
  // blocks nobody reads those, and memory that is not touched is not taken.
  if (layout == KvLayout::by_token) ggml_backend_buffer_clear(buffer_.get(), 0);
}

void KvCache::copy(std::span<const BlockCopy> full_copies,
                   std::span<const BlockCopy> window_copies) {
  for (const auto &layer : layers_) {
    for (const auto &[from, to] : layer.is_swa ? window_copies : full_copies) {
      for (ggml_tensor *tensor : {layer.k, layer.v})
        std::memcpy(layer.block_of(tensor, to), layer.block_of(tensor, from), layer.block_bytes);
    }
  }
}

size_t KvCache::block_bytes(Part part) const {
  size_t n_bytes = 0;
  for (const auto &layer : layers_) n_bytes += layer.is_in(part) ? 2 * layer.block_bytes : 0;
  return n_bytes;
}

void KvCache::read_block(Part part, int32_t block, std::span<std::byte> bytes) const {
  assert(bytes.size() == block_bytes(part));
  std::byte *to = bytes.data();
  for (const auto &layer : layers_) {
    if (!layer.is_in(part)) continue;
    for (ggml_tensor *tensor : {layer.k, layer.v}) {
      std::memcpy(to, layer.block_of(tensor, block), layer.block_bytes);
      to += layer.block_bytes;
    }
  }
}

void KvCache::write_block(Part part, int32_t block, std::span<const std::byte> bytes) {
  assert(bytes.size() == block_bytes(part));
  const std::byte *from = bytes.data();
  for (const auto &layer : layers_) {
    if (!layer.is_in(part)) continue;
    for (ggml_tensor *tensor : {layer.k, layer.v}) {
      std::memcpy(layer.block_of(tensor, block), from, layer.block_bytes);
      from += layer.block_bytes;
    }
  }
}

void KvCache::clear_after(Part part, uint32_t n_tokens, std::span<std::byte> bytes) const {
  assert(bytes.size() == block_bytes(part) && n_tokens <= block_size_);
  const size_t n_stretches = layout_ == KvLayout::by_head ? n_head_kv_ : 1;
  for (const auto &layer : layers_) {
    if (!layer.is_in(part)) continue;
    const size_t stretch_bytes = layer.block_bytes / n_stretches;
    const size_t kept_bytes = stretch_bytes / block_size_ * n_tokens;
    for (size_t i = 0; i < 2 * n_stretches; ++i) {  // of k and of v
      std::ranges::fill(bytes.subspan(kept_bytes, stretch_bytes - kept_bytes), std::byte{0});
      bytes = bytes.subspan(stretch_bytes);
    }
  }
}

size_t KvCache::size_bytes() const {
  return buffer_ ? ggml_backend_buffer_get_size(buffer_.get()) : 0;
}

std::vector<int64_t> rows_written(KvLayout layout, uint32_t n_head_kv, const BlockTables &tables,
                                  std::span<const SeqPos> places) {
  std::vector<int64_t> rows;
  for (const auto &place : places) {
    const int64_t cell = tables.cell(place);
    if (layout == KvLayout::by_token) {
      rows.push_back(cell);
      continue;
    }
    const int64_t block_size = tables.block_size();
    const int64_t first = cell / block_size * n_head_kv * block_size + cell % block_size;
    for (int64_t head = 0; head < n_head_kv; ++head) rows.push_back(first + head * block_size);
  }
  return rows;
}

}  // namespace patchbay
