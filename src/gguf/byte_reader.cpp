#include "gguf/byte_reader.h"

#include <fmt/format.h>

#include <iterator>

namespace patchbay {

std::string printable(std::string_view name) {
  constexpr size_t k_max_shown_bytes = 100;
  std::string shown;
  for (const char c : name.substr(0, k_max_shown_bytes)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      shown += c;
    } else {
      fmt::format_to(std::back_inserter(shown), "\\x{:02x}", byte);
    }
  }
  if (name.size() > k_max_shown_bytes) shown += "...";
  return shown;
}

}  // namespace patchbay
