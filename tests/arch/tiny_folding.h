#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gguf/gguf_builder.h"
#include "model/tensor_table.h"

namespace patchbay {

/// How the matrices of a made-up model are Hadamard-folded.
struct TinyFolding {
  int64_t block_size = 0;  ///< 0: not at all
  bool explicit_signs = true;
  std::function<bool(const TensorSpec &)> takes;  ///< which matrices; empty: all
};

/// What prism.hadamard.* must say of the folded matrices.
struct FoldedNames {
  std::vector<std::string> linears;
  std::vector<std::string> tables;
  std::set<int64_t> widths;
};

/// The Walsh-Hadamard transform of one block in natural order, times 1 / sqrt(block), in double.
inline void transform_block(std::span<float> block) {
  std::vector<double> values(block.begin(), block.end());
  for (size_t half = 1; half < values.size(); half *= 2) {
    for (size_t i = 0; i < values.size(); ++i) {
      if ((i & half) != 0) continue;
      const double sum = values[i] + values[i + half];
      values[i + half] = values[i] - values[i + half];
      values[i] = sum;
    }
  }
  const double scale = 1 / std::sqrt(static_cast<double>(values.size()));
  for (size_t i = 0; i < values.size(); ++i) block[i] = static_cast<float>(scale * values[i]);
}

/// The signs of all inputs of a width.
inline std::vector<int8_t> tiny_signs(int64_t width) {
  std::mt19937_64 random(static_cast<uint64_t>(width));
  std::vector<int8_t> signs(static_cast<size_t>(width));
  for (int8_t &sign : signs) sign = (random() & 1U) != 0 ? 1 : -1;
  return signs;
}

/// Every row w of `values` becomes F(w (.) signs).
inline void fold_rows(const TinyFolding &folding, int64_t width, std::vector<float> &values) {
  const auto signs = tiny_signs(width);
  const auto block_size = static_cast<size_t>(folding.block_size);
  for (size_t i = 0; folding.explicit_signs && i < values.size(); ++i) {
    values[i] *= static_cast<float>(signs[i % signs.size()]);
  }
  for (size_t i = 0; i < values.size(); i += block_size) {
    transform_block(std::span(values).subspan(i, block_size));
  }
}

/// Folds the numbers of a matrix if it is one of those that are folded, and takes its name down.
inline void fold(const TinyFolding &folding, const TensorSpec &spec, std::vector<float> &values,
                 FoldedNames &folded) {
  if (folding.block_size == 0 || spec.role == TensorRole::vector) return;
  if (folding.takes && !folding.takes(spec)) return;
  fold_rows(folding, spec.ne[0], values);
  (spec.role == TensorRole::table ? folded.tables : folded.linears).push_back(spec.name);
  folded.widths.insert(spec.ne[0]);
}

/// Writes the keys prism.hadamard.*.
inline void set_folding(GgufBuilder &file, const TinyFolding &folding, const FoldedNames &folded) {
  file.set("prism.hadamard.version", uint32_t{1})
      .set("prism.hadamard.transform", "normalized-sylvester-walsh-hadamard")
      .set("prism.hadamard.axis", "input-last-dimension")
      .set("prism.hadamard.block_size", static_cast<uint32_t>(folding.block_size))
      .set("prism.hadamard.sign_mode", folding.explicit_signs ? "explicit" : "identity")
      .set_array("prism.hadamard.weight_names", folded.linears);
  if (!folded.tables.empty()) {
    file.set_array("prism.hadamard.inverse_weight_names", folded.tables);
  }
  if (!folding.explicit_signs) return;
  std::vector<uint32_t> widths;
  std::vector<int8_t> values;
  for (const int64_t width : folded.widths) {
    const auto signs = tiny_signs(width);
    widths.push_back(static_cast<uint32_t>(width));
    values.insert(values.end(), signs.begin(), signs.end());
  }
  file.set_array("prism.hadamard.sign_widths", widths)
      .set_array("prism.hadamard.sign_values", values);
}

}  // namespace patchbay
