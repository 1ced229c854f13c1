#pragma once

#include <cstdint>
#include <memory>

#include "lora/adapter.h"

namespace patchbay {

/// An adapter of random factors of one type (F32, F16 or BF16) on every use in `uses`, for
/// measurements and tests: alpha equals the rank, and the change of each product is about `size` of
/// the product's input. The same seed gives the same adapter.
[[nodiscard]] std::shared_ptr<const Adapter> make_random_adapter(std::span<const AdaptableUse> uses,
                                                                 int64_t n_rank, float size,
                                                                 uint64_t seed,
                                                                 ggml_type type = GGML_TYPE_F32);

}  // namespace patchbay
