#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace patchbay {

/// One tensor as the header describes it; sizes and offsets are not yet checked against anything.
struct SafetensorsEntry {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;  ///< torch order, none negative
  uint64_t begin = 0;          ///< of the data, in bytes from the end of the header
  uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  ///< as written, names may repeat
  std::map<std::string, std::string> metadata;
};

/// Reads the JSON of a safetensors header. Takes only what the format allows, and so no nesting
/// that it does not know: time and memory are linear in the text. `path` is for messages. Throws
/// LoadError.
[[nodiscard]] SafetensorsHeader parse_safetensors_header(const std::string &path,
                                                         std::string_view json);

}  // namespace patchbay
