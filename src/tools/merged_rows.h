#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "tools/merge_plan.h"

namespace patchbay {

/// A tensor's bytes in its new type, and how far it moved.
struct MergedBytes {
  std::vector<std::byte> bytes;
  std::optional<double> relative_change;  ///< |W' - W| / |W|; none: W is 0
};

/// Computes a tensor that is no copy. Rows that nothing changes keep their bytes when the type
/// stays. Throws LoadError when a number does not fit the type.
[[nodiscard]] MergedBytes merge_rows(const MergedTensor &tensor, const std::string &path,
                                     uint32_t n_threads);

}  // namespace patchbay
