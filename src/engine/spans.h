#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lora/routing.h"

namespace patchbay {

/// Tokens of a sequence from `first` on, up to the next span's first, wear `set`.
struct AdapterSpan {
  int32_t first = 0;
  AdapterSet set;
};

/// One adapter that a request asks for.
struct RequestedAdapter {
  Worn worn;
  std::span<const int32_t>
      invocation_tokens;  ///< empty for an ordinary adapter; valid during the call
};

struct SpanPlan {
  std::vector<AdapterSpan>
      spans;  ///< the first begins at 0; the last also rules all generated tokens
  std::vector<int32_t>
      active_from;  ///< per requested adapter: first token that wears it, -1: none does
};

/// Start of the last occurrence of `needle` in `tokens`, or -1. An empty needle is nowhere.
[[nodiscard]] int32_t find_last(std::span<const int32_t> tokens, std::span<const int32_t> needle);

/// Ordinary adapters rule the whole request. An aLoRA (arXiv 2504.12397) rules from the start of
/// the last occurrence of its invocation tokens in the prompt, those tokens included, up to the
/// start of the next aLoRA; those with the same start rule together; one that is not invoked acts
/// nowhere. The sets are in the order of `adapters`, not yet canonical.
[[nodiscard]] SpanPlan plan_spans(std::span<const int32_t> prompt,
                                  std::span<const RequestedAdapter> adapters);

}  // namespace patchbay
