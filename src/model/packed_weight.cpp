#include "model/packed_weight.h"

namespace patchbay {

std::optional<WeightFormat> weight_format(ggml_type type) {
  switch (type) {
    case GGML_TYPE_Q4_0:
      return WeightFormat::q4_0;
    case GGML_TYPE_Q4_1:
      return WeightFormat::q4_1;
    case GGML_TYPE_Q5_0:
      return WeightFormat::q5_0;
    case GGML_TYPE_Q5_1:
      return WeightFormat::q5_1;
    case GGML_TYPE_Q8_0:
      return WeightFormat::q8_0;
    case GGML_TYPE_Q4_K:
      return WeightFormat::q4_k;
    case GGML_TYPE_Q5_K:
      return WeightFormat::q5_k;
    case GGML_TYPE_Q6_K:
      return WeightFormat::q6_k;
    case GGML_TYPE_F16:
      return WeightFormat::f16;
    case GGML_TYPE_BF16:
      return WeightFormat::bf16;
    default:
      return std::nullopt;
  }
}

}  // namespace patchbay
