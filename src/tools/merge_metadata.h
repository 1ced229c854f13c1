#pragma once

#include <optional>
#include <span>
#include <string>

#include "gguf/gguf_head.h"
#include "tools/tensor_change.h"

namespace patchbay {

/// The metadata of a merged model: the base's, with name and file type as they are now and
/// what was merged, patchbay.merged.{names,digests,strengths,combine}; what the base says to have
/// been merged into itself stays before it. Without the keys of a split. `combine`: by which rule;
/// empty: the changes were summed.
[[nodiscard]] GgufHead merged_metadata(const GgufFile &base,
                                       std::span<const MergedAdapter> adapters,
                                       std::optional<ggml_type> type, const std::string &combine);

}  // namespace patchbay
