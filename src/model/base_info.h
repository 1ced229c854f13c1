#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/hf_names.h"
#include "model/hparams.h"

namespace patchbay {

class BaseTensors;

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

/// The weight of a norm that the model's graph reads: an adapter may put another one in its place.
struct AdaptableNorm {
  std::string name;       ///< GGUF name, "blk.0.attn_norm.weight"
  int64_t n = 0;          ///< its numbers
  bool feeds_kv = false;  ///< as in AdaptableUse
};

/// What the adapter readers must know of the base.
struct BaseInfo {
  std::string path;  ///< of the model file; empty when not from a file
  std::string arch;  ///< general.architecture
  std::string name;  ///< general.name, may be empty
  HParams hparams;
  bool tied_head = false;  ///< no output.weight of its own
  std::vector<AdaptableUse> uses;
  std::vector<AdaptableNorm> norms;
  const HfNames *hf_names = nullptr;  ///< the family's; null: it has none. Outlives everything
  /// The base's numbers; null where none are at hand: what needs them is then refused.
  std::shared_ptr<const BaseTensors> tensors = nullptr;

  /// The use of that name, or nullptr. A tied table has two uses under two names, never one name
  /// twice.
  [[nodiscard]] const AdaptableUse *find_use(std::string_view use_name) const {
    for (const auto &use : uses) {
      if (use.name == use_name) return &use;
    }
    return nullptr;
  }

  [[nodiscard]] const AdaptableNorm *find_norm(std::string_view norm_name) const {
    for (const auto &norm : norms) {
      if (norm.name == norm_name) return &norm;
    }
    return nullptr;
  }
};

}  // namespace patchbay
