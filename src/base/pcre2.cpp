#include "base/pcre2.h"

#include <array>

namespace patchbay {

CompiledPattern compile_pattern(std::string_view pattern, uint32_t options) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  Pcre2Ptr<pcre2_code> code(
      pcre2_compile(pcre2_subject(pattern), pattern.size(), options, &error, &offset, nullptr));
  if (code != nullptr) return {.code = std::move(code)};
  return {.code = nullptr, .error = pcre2_error_text(error), .error_offset = offset};
}

std::string pcre2_error_text(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char *>(text.data());
}

}  // namespace patchbay
