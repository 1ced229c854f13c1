#pragma once

#include <cstdint>

#include "kernels/product_format.h"

namespace patchbay {

/// One token's numbers on their way into a panel.
struct PanelToken {
  const float *x = nullptr;  ///< [n_in]
  int64_t n_in = 0;
  uint8_t *panel = nullptr;
  int64_t n_tokens = 0;  ///< of the panel
  int64_t i_token = 0;   ///< in it
};

/// Quantises a token to the same bits as ggml does for its own products and lays it into its panel.
/// A token of NaNs makes results that are not finite. Any thread; one call per token. REQUIRES:
/// n_in is a multiple of 256 for InputForm::q8_k and of 32 for other quantised forms; ggml's CPU
/// back end has been initialised, for its tables.
void fill_panel(InputForm form, const PanelToken &token);

}  // namespace patchbay
