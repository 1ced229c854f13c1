#pragma once

#include <cstdint>
#include <memory>

#include "lora/adapter.h"

namespace patchbay {

/// An adapter of random F32 factors on every use in `uses`, for measurements and tests: alpha
/// equals the rank, and the change of each product is about `size` of the product's input. The same
/// seed gives the same adapter.
[[nodiscard]] std::shared_ptr<const Adapter> make_random_adapter(std::span<const AdaptableUse> uses,
                                                                 int64_t n_rank, float size,
                                                                 uint64_t seed);

}  // namespace patchbay
