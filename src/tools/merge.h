#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tools/merge_plan.h"

namespace patchbay {

/// Work done and all work, in bytes written; from the calling thread.
using MergeProgress = std::function<void(size_t done, size_t all)>;

struct MergeOptions {
  std::optional<ggml_type> type;  ///< of all matrices; none: each keeps its own
  size_t split_max_bytes = 0;     ///< of tensors in one file; 0: one file
  bool allow_alora = false;       ///< one that is merged acts on every token
  std::string combine;            ///< the rule that made the adapters one; empty: none did
  bool dry_run = false;           ///< plan and check only
  uint32_t n_threads = 1;
  MergeProgress progress;
};

/// What became of one tensor that was changed.
struct ChangedTensor {
  std::string name;
  std::string type_before;  ///< empty: it was not there
  std::string type_after;
  size_t size_bytes = 0;  ///< after
  /// |W' - W| / |W| before rounding (Frobenius norms); none: nothing was computed, or W is 0.
  std::optional<double> relative_change;
};

struct MergeReport {
  std::vector<std::string> files;
  size_t size_bytes = 0;
  size_t n_tensors = 0;
  std::vector<ChangedTensor> changed;
  std::vector<std::string> notes;
};

/// Writes `base` with the changes of `changing` in its weights, W' = W + sum of the changes, in F32
/// and rounded once. `merged` is what the file says to hold: the same adapters, or those that
/// `changing` is a combination of. Holds one tensor of the output at a time. Throws LoadError,
/// also for an aLoRA that is not allowed and for numbers that do not fit their type; then no file
/// is left.
[[nodiscard]] MergeReport merge(const LoadedModel &base, std::span<const MergedAdapter> changing,
                                std::span<const MergedAdapter> merged,
                                const std::filesystem::path &output, const MergeOptions &options);

}  // namespace patchbay
