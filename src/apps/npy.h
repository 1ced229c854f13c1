#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace patchbay {

/// Writes an F32 matrix as NumPy's .npy (format version 1.0), C order [n_rows, n_columns]. Written
/// under another name first, so that no half file is left; a pipe or device is written in place.
/// Throws LoadError.
void write_npy(const std::string &path, std::span<const float> values, size_t n_rows,
               size_t n_columns);

}  // namespace patchbay
