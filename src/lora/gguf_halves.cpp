#include "lora/gguf_halves.h"

#include <string_view>

namespace patchbay {

GgufAdapterTensors sort_halves(const GgufFile &file) {
  constexpr std::string_view k_suffix_a = ".lora_a";
  constexpr std::string_view k_suffix_b = ".lora_b";
  GgufAdapterTensors sorted;
  for (const auto &tensor : file.tensors()) {
    const std::string_view name = tensor.name;
    const bool is_a = name.ends_with(k_suffix_a);
    const bool is_half = (is_a || name.ends_with(k_suffix_b)) && name.size() > k_suffix_a.size();
    if (!is_half) {
      sorted.others.push_back(&tensor);
      continue;
    }
    auto &halves = sorted.pairs[std::string(name.substr(0, name.size() - k_suffix_a.size()))];
    (is_a ? halves.a : halves.b) = &tensor;
  }
  return sorted;
}

double gguf_scale(double alpha, int64_t n_rank) {
  return alpha == 0 ? 1 : alpha / static_cast<double>(n_rank);
}

}  // namespace patchbay
