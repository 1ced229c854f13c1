#pragma once

#include <ggml.h>

#include <cstddef>
#include <vector>

#include "lora/lora_pool.h"
#include "lora/routing.h"

namespace patchbay {

// The operations of the fused form, each computed by all threads of a step together. Their user
// data lives with the graph; what a step's rows wear stands in the mix, which is filled anew for
// each run.

/// Who wears what in the rows of one step.
struct LoraMix {
  const LoraPool *pool = nullptr;  ///< of the packed form
  std::vector<Segment> segments;
  bool has_dora = false;  ///< some of the adapters rescales rows
};

/// Weights that read one input. A row's low-rank vector holds, for each adapter of its set in the
/// set's order and within it for each of these uses that it targets, strength * scale * A x, and 1
/// times the strength for a bias.
struct LoraInput {
  const LoraMix *mix = nullptr;
  std::vector<size_t> uses;  ///< LoraPool::find_use()
};

/// One base product that those weights' expansions are added to.
struct LoraOutput {
  struct Part {
    size_t i_member = 0;    ///< into LoraInput::uses
    int64_t first_out = 0;  ///< where the weight's outputs begin in a row of the product
  };
  const LoraInput *input = nullptr;
  std::vector<Part> parts;
};

/// A norm whose weight some adapters change.
struct LoraNorm {
  const LoraMix *mix = nullptr;
  size_t i_norm = 0;     ///< LoraPool::find_norm()
  int64_t row_size = 0;  ///< numbers of a row, of all of its heads
};

// ggml_custom_op_t: shrinks with a LoraInput, expansions with a LoraOutput as data.

/// dst F32 [n_width, 1, n_rows] from src0 x F32 [n_in, n_rows].
void shrink_linear(ggml_tensor *dst, int i_thread, int n_threads, void *data);
/// dst F32 [n_width, 1, n_rows] from src0 I32 [n_rows], the tokens.
void look_up_low(ggml_tensor *dst, int i_thread, int n_threads, void *data);
/// dst F32 [n_width, n_used, n_rows] from src0 x F32 [n_in, 1 or n_used, n_rows] and src1 I32
/// [n_used, n_rows], the experts.
void shrink_experts(ggml_tensor *dst, int i_thread, int n_threads, void *data);

/// Adds to dst, which is src0, F32 [n, n_rows], from src1 the low-rank vectors. What rescales rows
/// finds in dst the product alone.
void expand_linear(ggml_tensor *dst, int i_thread, int n_threads, void *data);
/// The same for columns [first, last) of one weight, from a tile of its B on, in one thread; dst is
/// the node of a product. `output` is a LoraOutput. A PackedProduct::Finish.
void expand_columns(ggml_tensor *dst, int64_t first, int64_t last, const void *output);
/// Adds to dst, which is src0, F32 [n_out, n_used, n_rows], from src1 the low-rank vectors and src2
/// the experts.
void expand_experts(ggml_tensor *dst, int i_thread, int n_threads, void *data);

/// Adds to dst, which is src0, contiguous F32 rows of row_size, from src1 the normed input. Data: a
/// LoraNorm.
void change_norm(ggml_tensor *dst, int i_thread, int n_threads, void *data);

}  // namespace patchbay
