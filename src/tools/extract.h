#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/loaded_model.h"
#include "tools/low_rank_fit.h"

namespace patchbay {

struct ExtractOptions {
  RankWanted rank;
  ggml_type type = GGML_TYPE_F32;  ///< of the factors: F32 or F16
  bool ignore_vectors = false;     ///< norms and biases that differ are left out
  uint32_t n_threads = 1;
  std::function<void(size_t done, size_t all)> progress{};  ///< weights looked at
};

/// A weight that differs, and what became of the difference.
struct ExtractedPair {
  std::string target;
  UseKind kind = UseKind::linear;
  int64_t n_rank = 0;
  double relative_change = 0;  ///< |W' - W| / |W|
  double energy = 0;           ///< the part of |W' - W|^2 that the pair has
};

struct ExtractReport {
  std::vector<ExtractedPair> pairs;
  std::vector<std::string> vectors;  ///< norms and biases that differ: kept whole, or left out
  size_t n_equal = 0;                ///< weights without any difference
  size_t size_bytes = 0;
  std::vector<std::string> notes;
};

/// Writes a GGUF adapter that makes of `base` nearly `tuned`: of each weight that differs the
/// largest singular values of the difference, norms and biases as they are in `tuned`. Throws
/// LoadError: another architecture, other hyper-parameters or shapes, no difference at all, a
/// number that does not fit the type; then no file is left.
[[nodiscard]] ExtractReport extract(const LoadedModel &base, const LoadedModel &tuned,
                                    const std::filesystem::path &output,
                                    const ExtractOptions &options);

}  // namespace patchbay
