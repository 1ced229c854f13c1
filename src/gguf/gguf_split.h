#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace patchbay {

/// The largest number that the five digits of a shard name hold.
inline constexpr uint32_t k_max_shards = 99999;

/// The parts of a shard's file name, "PREFIX-00002-of-00003.gguf"; numbers count from 1.
struct SplitName {
  std::string prefix;
  uint32_t no = 0;
  uint32_t count = 0;
};

/// Nullopt for a file name of another pattern. Takes the name only, without folder.
[[nodiscard]] std::optional<SplitName> parse_split_name(std::string_view file_name);

[[nodiscard]] std::string format_split_name(const SplitName &name);

}  // namespace patchbay
