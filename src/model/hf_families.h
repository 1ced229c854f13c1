#pragma once

#include <span>
#include <string_view>

#include "model/hf_names.h"

namespace patchbay {

/// The table of an architecture (general.architecture), whether or not its graph exists here;
/// nullptr: there is none.
[[nodiscard]] const HfNames *find_hf_names(std::string_view arch);

/// The architecture of a GGUF file made from models with this `model_type` in their config.json;
/// empty: none that has a table.
[[nodiscard]] std::string_view arch_of_model_type(std::string_view model_type);

/// Modules that may be one in the adapter and several in the base, or the other way round, whatever
/// the family.
[[nodiscard]] std::span<const JoinedRow> joined_rows();

// For families with a graph.
extern const HfNames k_hf_llama;
extern const HfNames k_hf_gemma3;

}  // namespace patchbay
