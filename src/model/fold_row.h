#pragma once

#include <span>

#include "model/hadamard.h"

namespace patchbay {

/// Brings a row of a weight into the form in which it is stored, in place: F(row (.) signs), in
/// double. REQUIRES: row.size() is a folded width.
void fold_row(const HadamardFolding &folding, std::span<float> row);

/// The way back, F being its own inverse: F(row) (.) signs.
void unfold_row(const HadamardFolding &folding, std::span<float> row);

}  // namespace patchbay
