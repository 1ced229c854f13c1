#include "lora/packed_adapter.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/error.h"
#include "base/rounding.h"

namespace patchbay {
namespace {

/// Factors begin on cache lines, of which each row of a tile then fills whole ones.
size_t padded(size_t n_bytes) { return round_up<size_t>(n_bytes, 64); }

FactorType factor_type(ggml_type type) {
  if (type == GGML_TYPE_F16) return FactorType::f16;
  return type == GGML_TYPE_BF16 ? FactorType::bf16 : FactorType::f32;
}

/// Of a look-up table single rows are read, wherever they are: it stays in the adapter.
size_t copied_bytes(const ProductChange &change) {
  return change.kind == UseKind::embed ? 0 : change.a.data.size();
}

size_t tiled_bytes(const ProductChange &change) {
  if (change.b.data.empty()) return 0;
  const int64_t n_tiles = ceil_div(change.n_out(), k_lora_tile);
  return static_cast<size_t>(change.n_expert() * n_tiles * change.n_rank * k_lora_tile) *
         ggml_type_size(change.b.type);
}

/// Writes B [n_rank, n_out, n_expert] in tiles of numbers of `Bits`; the padding stays as it is.
template <class Bits>
void write_tiles(const Factor &b, std::byte *tiles) {
  const auto [n_rank, n_out, n_expert] = b.ne;
  const int64_t n_tiles = ceil_div(n_out, k_lora_tile);
  const std::byte *from = b.data.data();
  for (int64_t e = 0; e < n_expert; ++e) {
    for (int64_t o = 0; o < n_out; ++o) {
      std::byte *to =
          tiles + static_cast<size_t>((e * n_tiles + o / k_lora_tile) * n_rank * k_lora_tile +
                                      o % k_lora_tile) *
                      sizeof(Bits);
      for (int64_t r = 0; r < n_rank; ++r) {
        std::memcpy(to, from, sizeof(Bits));
        from += sizeof(Bits);
        to += k_lora_tile * static_cast<int64_t>(sizeof(Bits));
      }
    }
  }
}

}  // namespace

const std::byte *PackedChange::a_rows(int64_t i_expert, int64_t rank) const {
  const auto n_before = static_cast<size_t>((i_expert * n_rank() + rank) * change->a.ne[0]);
  return a + n_before * ggml_type_size(change->a.type);
}

const std::byte *PackedChange::b_tiles(int64_t i_expert, int64_t tile) const {
  const auto n_before = static_cast<size_t>((i_expert * n_tiles + tile) * n_rank() * k_lora_tile);
  return b + n_before * ggml_type_size(change->b.type);
}

PackedAdapter::PackedAdapter(const Adapter &adapter) : changes_(changes_of(adapter)) {
  size_t n_bytes = 0;
  for (const auto &change : changes_->products)
    n_bytes += padded(copied_bytes(change)) + padded(tiled_bytes(change));
  try {
    memory_ = HugeMemory(n_bytes);
  } catch (const std::bad_alloc &) {
    throw LoadError({.path = adapter.path.empty() ? adapter.name : adapter.path,
                     .problem = "needs more memory for its factors than there is",
                     .code = ErrorCode::out_of_memory});
  }
  auto *next = reinterpret_cast<std::byte *>(memory_.data());
  for (const auto &change : changes_->products) {
    const size_t a_bytes = copied_bytes(change);
    std::copy_n(change.a.data.data(), a_bytes, next);
    std::byte *const b = change.b.data.empty() ? nullptr : next + padded(a_bytes);
    if (b != nullptr && ggml_type_size(change.b.type) == sizeof(float)) {
      write_tiles<uint32_t>(change.b, b);
    } else if (b != nullptr) {
      write_tiles<uint16_t>(change.b, b);
    }
    products_.push_back({.change = &change,
                         .a_type = factor_type(change.a.type),
                         .b_type = factor_type(change.b.type),
                         .a = a_bytes == 0 ? change.a.data.data() : next,
                         .b = b,
                         .n_tiles = ceil_div(change.n_out(), k_lora_tile)});
    next += padded(a_bytes) + padded(tiled_bytes(change));
  }
}

}  // namespace patchbay
