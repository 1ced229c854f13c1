#pragma once

#include <string>
#include <vector>

#include "lora/peft_config.h"
#include "lora/peft_modules.h"
#include "model/base_info.h"

namespace patchbay {

/// A module that lands on one use of the base: on all of it, or on one expert of it.
struct PlacedModule {
  const PeftModule *module = nullptr;
  const AdaptableUse *use = nullptr;
  RowPlan plan = RowPlan::as_is;
  int64_t i_expert = -1;  ///< -1: the whole use
};

/// A linear module whose rows are several weights of the base, one below the other.
struct PlacedSlices {
  struct Slice {
    const AdaptableUse *use = nullptr;
    RowPlan plan = RowPlan::as_is;
  };

  const PeftModule *module = nullptr;
  std::vector<Slice> slices;
};

/// Linear modules whose rows, one below the other, are one weight of the base.
struct PlacedJoin {
  struct Part {
    int64_t n_rows = 0;
    RowPlan plan = RowPlan::as_is;
    const PeftModule *module = nullptr;  ///< null: the adapter leaves these rows alone
  };

  const AdaptableUse *use = nullptr;
  std::vector<Part> parts;
};

/// A linear module that is two weights of the base, as SplitPlan::key_value_heads deals its rows.
struct PlacedHeads {
  const PeftModule *module = nullptr;
  const AdaptableUse *keys = nullptr;
  const AdaptableUse *values = nullptr;
};

/// A module that holds one parameter of all experts.
struct PlacedFused {
  const PeftModule *module = nullptr;
  std::string parameter;  ///< full path, by which the patterns know it
  const AdaptableUse *use = nullptr;
  const AdaptableUse *second_use = nullptr;  ///< of the second half of the rows; may be null
};

/// Where every pair of a PEFT file belongs. Points into the PeftModules and the BaseInfo it was
/// made from.
struct Placement {
  std::vector<PlacedModule> single;
  std::vector<PlacedSlices> slices;
  std::vector<PlacedJoin> joins;
  std::vector<PlacedHeads> heads;
  std::vector<PlacedFused> fused;
};

/// Finds the use of every module by the base's table of names. Throws LoadError: a module that the
/// table or the base's graph does not know (up to five named), a layer or expert past the end, two
/// modules for one use, aLoRA on what PEFT does not allow. `path` is for messages.
[[nodiscard]] Placement place_modules(const PeftConfig &config, const std::string &path,
                                      const PeftModules &modules, const BaseInfo &base);

}  // namespace patchbay
