#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lora/adapter.h"

namespace patchbay {

/// Holds an adapter's replacements, in the form of the base and with all of its pairs there, to
/// what may be: leaves out, with a note, those that equal the base's numbers, and refuses by
/// LoadError whole matrices that the options do not allow, and what stands in place of the numbers
/// that a pair is made for. A matrix equals that of a quantised base when quantising it gives the
/// same numbers.
void settle_replacements(const AdapterLoadOptions &options, const BaseInfo &base, Adapter &adapter);

/// Which of the base's numbers a replacement of this name stands for.
struct ReplacedTensor {
  std::array<int64_t, 3> ne{1, 1, 1};
  bool is_matrix = false;  ///< else a norm or a bias
  UseKind kind = UseKind::linear;
};

/// nullopt when no graph of this base reads such a tensor. Throws LoadError for one that no adapter
/// may change; `path` is the adapter's.
[[nodiscard]] std::optional<ReplacedTensor> find_replaced(const std::string &path,
                                                          const BaseInfo &base,
                                                          const std::string &tensor);

}  // namespace patchbay
