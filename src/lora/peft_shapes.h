#pragma once

#include <cstdint>
#include <string>

#include "lora/peft_config.h"
#include "lora/peft_placement.h"
#include "model/base_info.h"

namespace patchbay {

/// Checks the two halves of a pair against the use, each other and the rank that the config states.
/// `path` is for messages. Throws LoadError.
void check_shapes(const PeftConfig &config, const std::string &path, const PlacedModule &placed,
                  const BaseInfo &base);

/// By how much the columns of A of a module are fewer than the inputs of its use: 1, the group of
/// QALoRA, or the blocks of BD-LoRA.
[[nodiscard]] int64_t input_factor(const PeftConfig &config, const PlacedModule &placed);
/// The same of the columns of B and the rank: 1 or the blocks of BD-LoRA.
[[nodiscard]] int64_t rank_factor(const PeftConfig &config, const PlacedModule &placed);
/// The same for modules that the base has otherwise divided. DoRA's lengths must be there for all
/// parts of a weight or for none.
void check_shapes(const PeftConfig &config, const std::string &path, const PlacedSlices &placed,
                  const BaseInfo &base);
void check_shapes(const PeftConfig &config, const std::string &path, const PlacedJoin &placed,
                  const BaseInfo &base);
void check_shapes(const PeftConfig &config, const std::string &path, const PlacedHeads &placed);

/// What the shapes of fused expert factors say.
struct FusedShape {
  int64_t n_rank = 0;  ///< of one expert
  int64_t n_in = 0;
  int64_t n_out = 0;     ///< of both halves together
  bool swapped = false;  ///< the file takes n_out for n_in, as PEFT did before 0.19.1
};

/// The same for a parameter of all experts. Throws LoadError also when n_in = n_out and nothing
/// says which is which.
[[nodiscard]] FusedShape check_fused_shapes(const PeftConfig &config, const std::string &path,
                                            const PlacedFused &placed);

/// Heads whose rows the plan reorders.
[[nodiscard]] int64_t n_heads(const BaseInfo &base, RowPlan plan);

}  // namespace patchbay
