#include "model/weight_layout.h"

#include <algorithm>

#include "kernels/product.h"
#include "model/packed_weight.h"
#include "model/repack.h"

namespace patchbay {
namespace {

/// How many times as fast as ggml's product of a weight as stored, for 1, 8 and 128 tokens.
struct Gain {
  float one = 0;
  float eight = 0;
  float many = 0;

  [[nodiscard]] float smallest() const { return std::min({one, eight, many}); }
  /// For choosing: answers are decoded by one token or a few and prompts read by many, each of
  /// which takes a good part of a server's time.
  [[nodiscard]] float overall() const { return one * eight * many; }
};

/// bench/kernel_table.py, 2048 x 2048, one thread: the smaller one of two runs, rounded down. A
/// processor is compared to ggml built for it.
Gain packed_gain(WeightFormat format, Isa isa) {
  const bool wide = isa >= Isa::avx512_vnni;
  switch (format) {
    case WeightFormat::q4_0:
      return wide ? Gain{2.8F, 5.4F, 6.6F} : Gain{2.5F, 2.9F, 3.4F};
    case WeightFormat::q4_1:
      return wide ? Gain{3.4F, 5.6F, 7.3F} : Gain{2.8F, 3.5F, 4.2F};
    case WeightFormat::q5_0:
      return wide ? Gain{2.6F, 5.3F, 7.5F} : Gain{2.1F, 3.0F, 3.5F};
    case WeightFormat::q5_1:
      return wide ? Gain{1.8F, 3.6F, 7.4F} : Gain{2.5F, 3.3F, 3.8F};
    case WeightFormat::q8_0:
      return wide ? Gain{1.4F, 3.9F, 5.6F} : Gain{1.4F, 1.7F, 1.9F};
    case WeightFormat::q4_k:
      return wide ? Gain{1.7F, 3.0F, 3.8F} : Gain{1.5F, 2.0F, 2.1F};
    case WeightFormat::q5_k:
      return wide ? Gain{1.8F, 3.9F, 5.4F} : Gain{1.1F, 2.3F, 2.8F};
    case WeightFormat::q6_k:
      return wide ? Gain{1.3F, 2.9F, 3.6F} : Gain{1.0F, 1.4F, 1.7F};
    case WeightFormat::f16:
      return wide ? Gain{1.0F, 2.2F, 2.9F} : Gain{1.0F, 2.0F, 2.4F};
    case WeightFormat::bf16:
      return isa >= Isa::avx512_bf16 ? Gain{1.0F, 2.0F, 2.3F} : Gain{};
  }
  return {};
}

/// The same of ggml's interleaved layouts (two threads), for types that gain by them; Q2_K can be
/// interleaved too but does not.
Gain interleaved_gain(ggml_type type) {
  switch (type) {
    case GGML_TYPE_Q4_0:
      return {1.50F, 2.10F, 2.80F};
    case GGML_TYPE_Q4_K:
      return {1.16F, 1.42F, 2.06F};
    case GGML_TYPE_IQ4_NL:
      return {1.72F, 2.38F, 3.19F};
    case GGML_TYPE_MXFP4:
      return {1.37F, 2.25F, 3.04F};
    default:
      return {};
  }
}

}  // namespace

std::string_view to_string(WeightLayout layout) {
  switch (layout) {
    case WeightLayout::as_stored:
      return "as stored";
    case WeightLayout::interleaved:
      return "interleaved";
    case WeightLayout::packed:
      return "packed";
  }
  return "";
}

WeightLayout choose_layout(TensorRole role, const ggml_tensor &tensor,
                           const LayoutOptions &options) {
  if (role != TensorRole::linear && role != TensorRole::experts) return WeightLayout::as_stored;
  Gain best{1, 1, 1};
  WeightLayout layout = WeightLayout::as_stored;
  const auto offer = [&](WeightLayout offered, const Gain &gain) {
    if (gain.smallest() < 1 || gain.overall() <= best.overall()) return;
    best = gain;
    layout = offered;
  };
  const auto format = weight_format(tensor.type);
  if (options.pack && format && has_product(options.isa, *format))
    offer(WeightLayout::packed, packed_gain(*format, options.isa));
  const Gain gain = interleaved_gain(tensor.type);
  if (options.interleave && gain.one > 0 && can_interleave(role, tensor))
    offer(WeightLayout::interleaved, gain);
  return layout;
}

}  // namespace patchbay
