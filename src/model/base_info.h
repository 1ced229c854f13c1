#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/hf_names.h"
#include "model/hparams.h"

namespace patchbay {

/// In which way the graph reads a weight; LoRA factors have another shape for each.
enum class UseKind {
  linear,   ///< y = W x; W [n_in, n_out]
  embed,    ///< row look-up; W [n_out, n_rows]
  experts,  ///< y_e = W_e x for the experts chosen per token; W [n_in, n_out, n_expert]
};

/// One (tensor, use) pair that the model's graph reads, found by recording one build of the graph.
/// An adapter may target these and nothing else. A tied head is the use `output.weight` of kind
/// linear, whatever tensor holds its numbers.
struct AdaptableUse {
  std::string name;  ///< GGUF name by which adapters call it, e.g. "blk.0.attn_q.weight"
  UseKind kind = UseKind::linear;
  std::array<int64_t, 3> ne{1, 1, 1};  ///< of the base weight, ggml order
  /// The numbers lie in a look-up table that is stored Hadamard-folded: read, but not adaptable.
  bool rotated_table = false;
  /// Linear weights that read one input together have one number; -1: it reads its input alone.
  int32_t i_input = -1;
  /// What it gives is part of some layer's keys or values, or of what those are computed from.
  bool feeds_kv = false;
};

/// What the adapter readers must know of the base; no weights.
struct BaseInfo {
  std::string path;  ///< of the model file; empty when not from a file
  std::string arch;  ///< general.architecture
  std::string name;  ///< general.name, may be empty
  HParams hparams;
  bool tied_head = false;  ///< no output.weight of its own
  std::vector<AdaptableUse> uses;
  const HfNames *hf_names = nullptr;  ///< the family's; null: it has none. Outlives everything

  /// The use of that name, or nullptr. A tied table has two uses under two names, never one name
  /// twice.
  [[nodiscard]] const AdaptableUse *find_use(std::string_view use_name) const {
    for (const auto &use : uses) {
      if (use.name == use_name) return &use;
    }
    return nullptr;
  }
};

}  // namespace patchbay
