#include "graph/linear.h"

namespace patchbay {

ggml_tensor *rms_norm(Graph &g, const Weight &weight, ggml_tensor *x) {
  g.note_norm(weight);
  ggml_tensor *unit = ggml_rms_norm(g.context(), x, g.hparams().norm_rms_eps);
  ggml_tensor *y = ggml_mul(g.context(), unit, weight.tensor);
  return g.lora() == nullptr ? y : g.lora()->add_norm(g, weight, unit, y);
}

}  // namespace patchbay
