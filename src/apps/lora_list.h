#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace patchbay {

/// One adapter of a --lora list.
struct LoraItem {
  std::string name;  ///< empty: named after its file
  std::string path;
  float strength = 1;
};

/// Reads a comma list of adapters, `[NAME=]PATH[:STRENGTH]` each, quoted as in CSV where a path
/// holds a comma
/// ("a,b.gguf"). An item that exists as a path is that path, whatever characters it has; else a
/// finite number after its last colon is the strength. Throws std::invalid_argument that names the
/// item.
[[nodiscard]] std::vector<LoraItem> parse_lora_list(std::string_view list, bool strength_required);

/// Gives every item without a name that of its file (the stem) or folder, with _ for commas and
/// control characters, made unique by -2, -3 and so on. Throws std::invalid_argument: a name was
/// given twice, or is that of the base.
void name_loras(std::vector<LoraItem> &items, const std::string &base = {});

}  // namespace patchbay
