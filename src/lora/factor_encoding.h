#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "lora/adapter.h"

namespace patchbay {

/// A factor as it goes into a file.
struct EncodedFactor {
  ggml_type type = GGML_TYPE_F32;  ///< F32, F16, BF16 or Q8_0
  std::span<const std::byte> data;
  std::shared_ptr<const void> owner;
  uint64_t n_vanished = 0;  ///< numbers that were not 0 and are too small for the type
  /// Why the type is F16 where Q8_0 was asked for; empty: it is not so.
  std::string why_not_q8_0;
};

/// `factor` times `multiplier`, computed in F64, as `type` (nullopt: the factor's own; F32 where it
/// is multiplied). Q8_0 is replaced by F16 where rows are no whole blocks or the scales of blocks
/// would be too small for it. `path` and `item` are for messages. Throws LoadError: a number that
/// overflows the type, and a factor that is not zero and would become so altogether.
[[nodiscard]] EncodedFactor encode_factor(const std::string &path, const std::string &item,
                                          const Factor &factor, double multiplier,
                                          std::optional<ggml_type> type);

}  // namespace patchbay
