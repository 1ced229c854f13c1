#pragma once

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <memory>
#include <string>
#include <string_view>

namespace patchbay {

struct FreePcre2 {
  void operator()(pcre2_code *code) const { pcre2_code_free(code); }
  void operator()(pcre2_match_data *data) const { pcre2_match_data_free(data); }
  void operator()(pcre2_match_context *context) const { pcre2_match_context_free(context); }
};

/// Owns an object of PCRE2.
template <class T>
using Pcre2Ptr = std::unique_ptr<T, FreePcre2>;

/// A pattern that was compiled, or why it was not.
struct CompiledPattern {
  Pcre2Ptr<pcre2_code> code;  ///< null: `error` at byte `error_offset`
  std::string error;
  size_t error_offset = 0;
};

/// `options` are those of pcre2_compile.
[[nodiscard]] CompiledPattern compile_pattern(std::string_view pattern, uint32_t options);

/// What PCRE2 says to one of its error codes.
[[nodiscard]] std::string pcre2_error_text(int code);

/// The characters as PCRE2 takes them.
[[nodiscard]] inline PCRE2_SPTR pcre2_subject(std::string_view text) {
  return reinterpret_cast<PCRE2_SPTR>(text.data());
}

}  // namespace patchbay
