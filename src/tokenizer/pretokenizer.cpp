#include "tokenizer/pretokenizer.h"

#include <fmt/format.h>

#include <cstdint>
#include <stdexcept>
#include <string>

#include "base/pcre2.h"

namespace patchbay {

class Pretokenizer::Regex {
 public:
  explicit Regex(const PretokenizerStep &step)
      : code_(compile(step)), context_(pcre2_match_context_create(nullptr)) {
    // The default limit fails on runs of some ten million blanks; the patterns are linear, so none
    // is needed.
    pcre2_set_match_limit(context_.get(), UINT32_MAX);
    // Without JIT support in the library the interpreter gives the same matches.
    has_jit_ = pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE) == 0;
  }

  void split(std::string_view text, std::vector<std::string_view> &pieces) const {
    const Pcre2Ptr<pcre2_match_data> data(
        pcre2_match_data_create_from_pattern(code_.get(), nullptr));
    size_t done = 0;
    for (size_t pos = 0; match(text, pos, *data);) {
      const PCRE2_SIZE *range = pcre2_get_ovector_pointer(data.get());
      if (range[0] > done) pieces.push_back(text.substr(done, range[0] - done));
      pieces.push_back(text.substr(range[0], range[1] - range[0]));
      done = range[1];
      pos = range[1];
    }
    if (done < text.size()) pieces.push_back(text.substr(done));
  }

 private:
  static Pcre2Ptr<pcre2_code> compile(const PretokenizerStep &step) {
    auto compiled = compile_pattern(step.pattern, step.on_bytes ? 0 : PCRE2_UTF | PCRE2_UCP);
    if (compiled.code == nullptr) {
      throw std::logic_error(fmt::format("pre-tokenizer pattern {} at {}: {}", step.pattern,
                                         compiled.error_offset, compiled.error));
    }
    return std::move(compiled.code);
  }

  bool match(std::string_view text, size_t pos, pcre2_match_data &data) const {
    // An empty match would be no piece and would not advance.
    const uint32_t options = PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY;
    const int n = has_jit_ ? pcre2_jit_match(code_.get(), pcre2_subject(text), text.size(), pos,
                                             options, &data, context_.get())
                           : pcre2_match(code_.get(), pcre2_subject(text), text.size(), pos,
                                         options, &data, context_.get());
    if (n == PCRE2_ERROR_NOMATCH) return false;
    if (n < 0) throw std::runtime_error(fmt::format("splitting text: {}", pcre2_error_text(n)));
    return true;
  }

  Pcre2Ptr<pcre2_code> code_;
  Pcre2Ptr<pcre2_match_context> context_;
  bool has_jit_ = false;
};

Pretokenizer::Pretokenizer(const PretokenizerSpec &spec) {
  for (const PretokenizerStep &step : spec.steps) steps_.emplace_back(step);
}

Pretokenizer::Pretokenizer(Pretokenizer &&) noexcept = default;
Pretokenizer &Pretokenizer::operator=(Pretokenizer &&) noexcept = default;
Pretokenizer::~Pretokenizer() = default;

std::vector<std::string_view> Pretokenizer::split(std::string_view text) const {
  std::vector<std::string_view> pieces;
  if (!text.empty()) pieces.push_back(text);
  for (const Regex &step : steps_) {
    std::vector<std::string_view> finer;
    for (const std::string_view piece : pieces) step.split(piece, finer);
    pieces = std::move(finer);
  }
  return pieces;
}

}  // namespace patchbay
