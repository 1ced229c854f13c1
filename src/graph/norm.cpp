#include "graph/blocks.h"

namespace patchbay {

ggml_tensor *rms_norm(Graph &g, const Weight &weight, ggml_tensor *x) {
  ggml_tensor *unit = ggml_rms_norm(g.context(), x, g.hparams().norm_rms_eps);
  return ggml_mul(g.context(), unit, weight.tensor);
}

}  // namespace patchbay
