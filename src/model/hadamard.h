#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/gguf_file.h"
#include "model/base_info.h"

namespace patchbay {

/// Which weights of a model are stored turned by a blockwise Walsh-Hadamard transform, and how, as
/// the keys prism.hadamard.* (version 1) of PrismML's files say. A row w of such a weight is stored
/// as F(w (.) signs).
struct HadamardFolding {
  int64_t block_size = 1;                       ///< a power of two that divides every folded width
  std::map<int64_t, std::vector<float>> signs;  ///< +1 or -1, by input width; empty: all +1
  std::set<std::string, std::less<>> linears;   ///< weights that are multiplied
  std::set<std::string, std::less<>> tables;    ///< weights whose rows are looked up

  /// Whether the file holds this weight folded.
  [[nodiscard]] bool folds(std::string_view weight) const {
    return linears.contains(weight) || tables.contains(weight);
  }
};

/// The folding that a model file states; nullopt when it has no such key. Throws LoadError for
/// every key that is missing, unknown, or does not agree with the others or with the file's
/// tensors: a transform that is guessed or left out gives wrong answers and no error.
[[nodiscard]] std::optional<HadamardFolding> read_hadamard(const GgufFile &file);

/// Holds the folding to what the graph reads: refuses, by LoadError, a folded weight that the graph
/// would not transform, and marks the uses whose numbers lie in a folded table.
void settle_folding(const HadamardFolding &folding, BaseInfo &base);

}  // namespace patchbay
