#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "gguf/safetensors_file.h"
#include "lora/adapter.h"
#include "lora/peft_config.h"
#include "lora/peft_placement.h"

namespace patchbay {

// Modules that the base divides otherwise than the model that the adapter was trained on.
// REQUIRES: what check_shapes() has let through.

/// Adds a pair for each weight that the module is here; all share its A.
void add_pairs(const PeftConfig &config, const std::shared_ptr<const SafetensorsFile> &file,
               const PlacedSlices &placed, const BaseInfo &base, std::vector<FactorPair> &pairs);

/// The same. A weight that is transposed has A and B changed over.
void add_pairs(const PeftConfig &config, const std::shared_ptr<const SafetensorsFile> &file,
               const PlacedHeads &placed, std::vector<FactorPair> &pairs);

/// The one pair that those of the modules are here. Throws LoadError: a number that overflows F32
/// when scales that differ are folded in.
[[nodiscard]] FactorPair make_pair(const PeftConfig &config,
                                   const std::shared_ptr<const SafetensorsFile> &file,
                                   const PlacedJoin &placed, const BaseInfo &base);

/// Sizes of a linear module whose rows are keys and values, head by head.
struct HeadShape {
  int64_t n_in = 0;
  int64_t n_out = 0;
};

/// nullopt: the weights cannot be made of one module.
[[nodiscard]] std::optional<HeadShape> head_shape(const AdaptableUse &keys,
                                                  const AdaptableUse &values);

}  // namespace patchbay
