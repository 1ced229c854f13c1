#include "tools/merged_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "base/error.h"
#include "gguf/gguf_head.h"
#include "tools/row_changer.h"
#include "tools/tensor_rows.h"
#include "tools/weight_movement.h"

namespace patchbay {
namespace {

class RowMerger {
 public:
  RowMerger(const MergedTensor &tensor, std::string path, uint32_t n_threads)
      : tensor_(tensor),
        path_(std::move(path)),
        n_threads_(n_threads),
        row_bytes_(ggml_row_size(tensor.type, tensor.ne[0])),
        changer_(tensor.change == nullptr ? k_no_change : *tensor.change, tensor.ne, tensor.folding,
                 n_threads, [this](RowChunk chunk, std::span<float> out) { read(chunk, out); }) {}

  MergedBytes run() {
    MergedBytes merged;
    merged.bytes.resize(tensor_bytes(tensor_.type, tensor_.ne));
    ggml_quantize_init(tensor_.type);  // its tables, before there are threads
    const int64_t n_rows = tensor_.ne[1] * tensor_.ne[2] * tensor_.ne[3];
    for_each_chunk(n_rows, tensor_.ne[1], rows_per_chunk(tensor_.ne[0]), n_threads_,
                   [&](RowChunk chunk) { merge(chunk, merged.bytes); });
    merged.relative_change = squares_.relative_change();
    return merged;
  }

 private:
  static const TensorChange k_no_change;

  void read(RowChunk chunk, std::span<float> out) const {
    if (tensor_.source == nullptr) {
      std::ranges::fill(out, 0.0F);
    } else {
      read_rows(*tensor_.source, chunk, out);
    }
  }

  void merge(RowChunk chunk, std::span<std::byte> all) {
    const auto n_per_row = static_cast<size_t>(tensor_.ne[0]);
    std::vector<float> before(static_cast<size_t>(chunk.n_rows) * n_per_row);
    std::vector<float> after(before.size());
    read(chunk, before);
    changer_.apply(chunk, before, after);
    const auto out = all.subspan(static_cast<size_t>(chunk.first) * row_bytes_,
                                 static_cast<size_t>(chunk.n_rows) * row_bytes_);
    if (!write_rows(tensor_.type, tensor_.ne[0], after, out)) {
      throw LoadError(
          {.path = path_,
           .item = tensor_.name,
           .problem =
               fmt::format("gets a number that does not fit {}", ggml_type_name(tensor_.type)),
           .hint = tensor_.type == GGML_TYPE_F32 || tensor_.type == GGML_TYPE_BF16
                       ? "the base or an adapter holds NaN, infinity or huge numbers"
                       : "--type f32 or bf16 has more room; a smaller strength changes less"});
    }
    keep_unchanged(chunk, before, after, out);
    ChangeSquares squares;
    squares.add(before, after);
    const std::scoped_lock lock(mutex_);
    squares_.add(squares);
  }

  /// Quantising what was quantised does not always give the same numbers.
  void keep_unchanged(RowChunk chunk, std::span<const float> before, std::span<const float> after,
                      std::span<std::byte> out) const {
    if (tensor_.source == nullptr || tensor_.source->type != tensor_.type) return;
    const auto raw = raw_rows(*tensor_.source, chunk);
    const auto n_per_row = static_cast<size_t>(tensor_.ne[0]);
    for (size_t i = 0; i < static_cast<size_t>(chunk.n_rows); ++i) {
      if (!std::ranges::equal(before.subspan(i * n_per_row, n_per_row),
                              after.subspan(i * n_per_row, n_per_row)))
        continue;
      std::ranges::copy(raw.subspan(i * row_bytes_, row_bytes_),
                        out.subspan(i * row_bytes_).begin());
    }
  }

  const MergedTensor &tensor_;
  std::string path_;
  uint32_t n_threads_;
  size_t row_bytes_;
  RowChanger changer_;
  std::mutex mutex_;
  ChangeSquares squares_;
};

const TensorChange RowMerger::k_no_change{};

}  // namespace

MergedBytes merge_rows(const MergedTensor &tensor, const std::string &path, uint32_t n_threads) {
  return RowMerger(tensor, path, n_threads).run();
}

}  // namespace patchbay
