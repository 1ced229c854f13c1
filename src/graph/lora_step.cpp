#include "graph/lora_step.h"

namespace patchbay {

std::vector<ggml_tensor *> split_products(ggml_context *context,
                                          std::span<const BaseProduct> products) {
  std::vector<ggml_tensor *> parts;
  for (const auto &[weights, y, packed] : products) {
    size_t offset = 0;
    for (const Weight *weight : weights) {
      const int64_t n_out = weight->tensor->ne[1];
      parts.push_back(
          weights.size() == 1 ? y : ggml_view_2d(context, y, n_out, y->ne[1], y->nb[1], offset));
      offset += static_cast<size_t>(n_out) * sizeof(float);
    }
  }
  return parts;
}

}  // namespace patchbay
