#include "gguf/safetensors_writer.h"

#include <cstdint>
#include <nlohmann/json.hpp>

namespace patchbay {

std::string safetensors_head(std::span<const SafetensorsEntry> entries) {
  constexpr size_t k_alignment = 8;
  // Loaders in Python look for the framework that wrote a file.
  nlohmann::ordered_json header{{"__metadata__", {{"format", "pt"}}}};
  for (const auto &entry : entries) {
    header[entry.name] = {
        {"dtype", entry.dtype}, {"shape", entry.shape}, {"data_offsets", {entry.begin, entry.end}}};
  }
  std::string text = header.dump();
  text.append((k_alignment - text.size() % k_alignment) % k_alignment, ' ');
  const uint64_t n = text.size();
  return std::string(reinterpret_cast<const char *>(&n), sizeof n) + text;
}

}  // namespace patchbay
