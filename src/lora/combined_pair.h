#pragma once

#include <cstdint>
#include <span>

#include "lora/adapter.h"

namespace patchbay {

/// A weight that is part of the rows of a module, and the pair on it.
struct RowPart {
  const FactorPair *pair = nullptr;  ///< null: nothing changes these rows
  int64_t n_rows = 0;
};

/// The factors of a module whose rows are several weights, one below the other.
struct CombinedPair {
  int64_t n_rank = 0;
  float scale = 1;
  Factor a;  ///< [n_in, n_rank, n_expert]
  Factor b;  ///< [n_rank, n_rows, n_expert]
};

/// One pair that does what those of the parts do. Parts that share A keep their rank; else the
/// ranks add up and B is zero where a part's rank is not the row's. Scales that differ are folded
/// into B, in F64. REQUIRES: a part with a pair, all of one n_in and n_expert. `path` is for
/// messages. Throws LoadError: a number that overflows F32 when it is folded.
[[nodiscard]] CombinedPair combine_rows(const std::string &path, std::span<const RowPart> parts);

}  // namespace patchbay
