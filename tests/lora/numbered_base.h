#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gguf/gguf_builder.h"
#include "lora/peft_builder.h"
#include "lora/small_bases.h"
#include "model/base_tensors.h"

namespace patchbay {

/// The numbers of a tensor of numbered_base(), in ggml order.
inline std::vector<float> base_numbers(const std::string &name, int64_t n) {
  return numbered(1, n, static_cast<int>(name.size())).values;
}

/// The same base with numbers at hand, each matrix in `type`. A tied head has none of its own. The
/// attention of layer 0 has biases.
inline BaseInfo numbered_base(BaseInfo base, ggml_type type = GGML_TYPE_F32) {
  GgufBuilder builder;
  const auto add = [&](const std::string &name, const std::vector<int64_t> &ne, ggml_type as) {
    int64_t n = 1;
    for (const int64_t dim : ne) n *= dim;
    const auto values = base_numbers(name, n);
    std::string bytes(ggml_row_size(as, ne[0]) * static_cast<size_t>(n / ne[0]), '\0');
    ggml_quantize_chunk(as, values.data(), bytes.data(), 0, n / ne[0], ne[0], nullptr);
    builder.add_tensor(name, as, ne, bytes);
  };
  for (const auto &use : base.uses) {
    if (use.name == "output.weight" && base.tied_head) continue;
    add(use.name, {use.ne[0], use.ne[1], use.ne[2]}, type);
  }
  for (const auto &norm : base.norms) add(norm.name, {norm.n}, GGML_TYPE_F32);
  add("blk.0.attn_q.bias", {8}, GGML_TYPE_F32);
  const TempDir folder;
  base.tensors = std::make_shared<const BaseTensors>(
      std::make_shared<const GgufFile>(GgufFile::open(folder.write("base.gguf", builder.bytes()))));
  return base;
}

}  // namespace patchbay
