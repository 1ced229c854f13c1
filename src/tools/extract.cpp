#include "tools/extract.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <mutex>

#include "base/error.h"
#include "base/replacement_file.h"
#include "gguf/gguf_head.h"
#include "lora/gguf_halves.h"
#include "tools/model_difference.h"
#include "tools/model_writer.h"
#include "tools/row_chunks.h"
#include "tools/tensor_rows.h"

namespace patchbay {
namespace {

/// A tensor of the adapter with its bytes.
struct AdapterTensor {
  PlannedTensor planned;
  std::vector<std::byte> bytes;
};

/// A pair in the making: factors of all experts, one after the other.
struct Factors {
  std::vector<float> a;
  std::vector<float> b;
};

std::string kind_name(UseKind kind) {
  if (kind == UseKind::embed) return "embed";
  return kind == UseKind::experts ? "experts" : "linear";
}

std::vector<float> transposed(std::span<const float> numbers, int64_t n_rows, int64_t n_cols) {
  std::vector<float> out(numbers.size());
  for (int64_t row = 0; row < n_rows; ++row) {
    for (int64_t col = 0; col < n_cols; ++col)
      out[static_cast<size_t>(col * n_rows + row)] =
          numbers[static_cast<size_t>(row * n_cols + col)];
  }
  return out;
}

/// Fills the rank up with zeros, so that all experts have the same.
std::vector<float> padded_rows(std::span<const float> numbers, int64_t n_rank, int64_t n_wanted) {
  const int64_t n_rows = static_cast<int64_t>(numbers.size()) / n_rank;
  std::vector<float> out(static_cast<size_t>(n_rows * n_wanted));
  for (int64_t row = 0; row < n_rows; ++row)
    std::copy_n(numbers.begin() + row * n_rank, n_rank, out.begin() + row * n_wanted);
  return out;
}

class Extractor {
 public:
  Extractor(const LoadedModel &base, const LoadedModel &tuned, const ExtractOptions &options)
      : base_(base), tuned_(tuned), options_(options) {}

  void add_weights() {
    const auto pairs = weight_pairs(base_, tuned_);
    const auto n = static_cast<int64_t>(pairs.size());
    std::vector<std::vector<AdapterTensor>> found(pairs.size());
    std::vector<ExtractedPair> reports(pairs.size());
    size_t n_done = 0;
    for_each_chunk(n, n, 1, options_.n_threads, [&](RowChunk chunk) {
      const auto i = static_cast<size_t>(chunk.first);
      found[i] = fit(pairs[i], reports[i]);
      const std::scoped_lock lock(mutex_);
      if (options_.progress) options_.progress(++n_done, pairs.size());
    });
    for (size_t i = 0; i < pairs.size(); ++i) {
      if (found[i].empty()) {
        ++report_.n_equal;
        continue;
      }
      report_.pairs.push_back(std::move(reports[i]));
      std::ranges::move(found[i], std::back_inserter(tensors_));
    }
  }

  void add_vectors() {
    for (const auto &pair : different_vectors(base_, tuned_)) {
      report_.vectors.push_back(pair.name);
      if (!options_.ignore_vectors) tensors_.push_back(new_vector(pair));
    }
    if (report_.vectors.empty()) return;
    report_.notes.emplace_back(
        options_.ignore_vectors
            ? "norms and biases that differ are left out: the adapter lacks what they do"
            : "norms and biases that differ are kept whole, which llama.cpp cannot load; "
              "--ignore-vectors leaves them out");
  }

  ExtractReport write(const std::filesystem::path &output) {
    if (tensors_.empty()) {
      throw LoadError({.path = tuned_.info.path,
                       .problem = "has the same weights as the base: there is nothing to extract"});
    }
    PlannedFile file{.path = output, .end = tensors_.size(), .head = metadata(output)};
    for (const auto &[planned, bytes] : tensors_)
      file.head.add_tensor(planned.name, planned.type, planned.n_dims, planned.ne);
    report_.size_bytes = file.head.file_bytes();
    write_files({&file, 1},
                [&](size_t i) { return std::span<const std::byte>(tensors_[i].bytes); });
    return std::move(report_);
  }

 private:
  [[nodiscard]] GgufHead metadata(const std::filesystem::path &output) const {
    GgufHead head;
    head.set_string("general.type", "adapter");
    head.set_string("general.architecture", base_.info.arch);
    head.set_string("general.name", output.stem().string());
    head.set_u32("general.base_model.count", 1);
    head.set_string(k_gguf_base_name, base_.info.name);
    head.set_string("adapter.type", "lora");
    head.set_f32(k_gguf_alpha, alpha());
    head.set_string("patchbay.extracted.from", tuned_.info.name);
    return head;
  }

  /// With one rank for all it is that rank, and the scale 1.
  [[nodiscard]] float alpha() const {
    constexpr float k_any = 16;
    return options_.rank.energy ? k_any : static_cast<float>(options_.rank.n_rank);
  }

  /// Nothing when the two are equal. Threads do different ones side by side.
  std::vector<AdapterTensor> fit(const TensorPair &pair, ExtractedPair &report) const {
    const auto &ne = pair.base->ne;
    const int64_t n_expert = ne[2] * ne[3];
    std::vector<LowRankFit> fits;
    double base_squares = 0;
    double change_squares = 0;
    double kept_squares = 0;
    int64_t n_rank = 0;
    for (int64_t i = 0; i < n_expert; ++i) {
      const RowChunk rows{.first = i * ne[1], .n_rows = ne[1]};
      std::vector<float> change(static_cast<size_t>(ne[0] * ne[1]));
      const double squares = subtract(pair, rows, change, base_squares);
      fits.push_back(squares > 0 ? fit_low_rank(change, ne[1], ne[0], options_.rank)
                                 : LowRankFit{});
      change_squares += squares;
      kept_squares += fits.back().energy * squares;
      n_rank = std::max(n_rank, fits.back().n_rank);
    }
    if (n_rank == 0) return {};
    report = {.target = pair.name,
              .kind = kind_name(pair.kind),
              .n_rank = n_rank,
              .relative_change = std::sqrt(change_squares / base_squares),
              .energy = kept_squares / change_squares};
    return factors_of(pair, fits, n_rank);
  }

  /// What saving a tuned model in half precision did to all of it was not learnt: the base's
  /// numbers are rounded alike.
  static void round_as(ggml_type type, int64_t n_per_row, std::vector<float> &numbers) {
    if (type != GGML_TYPE_F16 && type != GGML_TYPE_BF16) return;
    std::vector<std::byte> rounded(numbers.size() * ggml_type_size(type));
    if (!write_rows(type, n_per_row, numbers, rounded)) return;  // the difference is no rounding
    ggml_get_type_traits(type)->to_float(rounded.data(), numbers.data(),
                                         static_cast<int64_t>(numbers.size()));
  }

  /// Puts tuned - base into `change`; returns its sum of squares and adds the base's.
  double subtract(const TensorPair &pair, RowChunk rows, std::vector<float> &change,
                  double &base_squares) const {
    std::vector<float> base(change.size());
    read_rows(*pair.base, rows, base);
    round_as(pair.tuned->type, pair.base->ne[0], base);
    read_rows(*pair.tuned, rows, change);
    double squares = 0;
    for (size_t i = 0; i < base.size(); ++i) {
      change[i] -= base[i];
      squares += static_cast<double>(change[i]) * change[i];
      base_squares += static_cast<double>(base[i]) * base[i];
    }
    if (!std::isfinite(squares + base_squares)) {
      throw LoadError({.path = tuned_.info.path,
                       .item = pair.name,
                       .problem = "or the base's holds NaN, infinity or numbers too large for "
                                  "their squares to be added up"});
    }
    return squares;
  }

  /// The scale of the file is alpha / rank: what makes that 1 goes into B.
  [[nodiscard]] std::vector<AdapterTensor> factors_of(const TensorPair &pair,
                                                      std::span<const LowRankFit> fits,
                                                      int64_t n_rank) const {
    const auto &ne = pair.base->ne;
    const bool is_table = pair.kind == UseKind::embed;
    const float scale = static_cast<float>(n_rank) / alpha();
    Factors factors;
    for (const auto &fit : fits) {
      const int64_t n_own = std::max<int64_t>(fit.n_rank, 1);  // an expert without any change
      std::vector<float> left = fit.left;
      std::vector<float> right = fit.right;
      left.resize(static_cast<size_t>(n_own * ne[1]));
      right.resize(static_cast<size_t>(n_own * ne[0]));
      left = padded_rows(left, n_own, n_rank);
      if (is_table) {
        right = padded_rows(transposed(right, n_own, ne[0]), n_own, n_rank);
      } else {
        right.resize(static_cast<size_t>(n_rank * ne[0]));
      }
      for (float &number : is_table ? right : left) number *= scale;
      std::ranges::copy(is_table ? left : right, std::back_inserter(factors.a));
      std::ranges::copy(is_table ? right : left, std::back_inserter(factors.b));
    }
    const int n_dims = pair.kind == UseKind::experts ? 3 : 2;
    const std::array<int64_t, 4> ne_left{n_rank, ne[1], ne[2], 1};
    const std::array<int64_t, 4> ne_right = is_table ? std::array<int64_t, 4>{n_rank, ne[0], 1, 1}
                                                     : std::array{ne[0], n_rank, ne[2], int64_t{1}};
    std::vector<AdapterTensor> tensors;
    tensors.push_back(encode(
        {pair.name + ".lora_a", options_.type, n_dims, is_table ? ne_left : ne_right}, factors.a));
    tensors.push_back(encode(
        {pair.name + ".lora_b", options_.type, n_dims, is_table ? ne_right : ne_left}, factors.b));
    return tensors;
  }

  [[nodiscard]] AdapterTensor encode(PlannedTensor planned, std::span<const float> numbers) const {
    AdapterTensor tensor{.planned = std::move(planned)};
    tensor.bytes.resize(tensor_bytes(tensor.planned.type, tensor.planned.ne));
    if (write_rows(tensor.planned.type, tensor.planned.ne[0], numbers, tensor.bytes)) return tensor;
    throw LoadError({.path = tuned_.info.path,
                     .item = tensor.planned.name,
                     .problem = fmt::format("gets a number that does not fit {}",
                                            ggml_type_name(tensor.planned.type))});
  }

  /// "blk.0.attn_norm.weight" -> ".patchbay_norm" of it, "blk.0.attn_q.bias" ->
  /// "blk.0.attn_q.weight.patchbay_bias".
  [[nodiscard]] AdapterTensor new_vector(const TensorPair &pair) const {
    constexpr std::string_view k_bias = ".bias";
    std::string name = pair.name;
    if (name.ends_with("norm.weight")) {
      name += ".patchbay_norm";
    } else if (name.ends_with(k_bias)) {
      name.replace(name.size() - k_bias.size(), std::string::npos, ".weight.patchbay_bias");
    } else {
      throw LoadError({.path = tuned_.info.path,
                       .item = pair.name,
                       .problem = "differs from the base's, and no adapter can change that",
                       .hint = "--ignore-vectors leaves it out"});
    }
    const int64_t n = (pair.tuned != nullptr ? pair.tuned : pair.base)->ne[0];
    std::vector<float> numbers(static_cast<size_t>(n));
    if (pair.tuned != nullptr) read_rows(*pair.tuned, {.first = 0, .n_rows = 1}, numbers);
    return encode({std::move(name), GGML_TYPE_F32, 1, {n, 1, 1, 1}}, numbers);
  }

  const LoadedModel &base_;
  const LoadedModel &tuned_;
  const ExtractOptions &options_;
  std::vector<AdapterTensor> tensors_;
  ExtractReport report_;
  mutable std::mutex mutex_;
};

}  // namespace

ExtractReport extract(const LoadedModel &base, const LoadedModel &tuned,
                      const std::filesystem::path &output, const ExtractOptions &options) {
  check_same_kind(base, tuned);
  std::vector<std::filesystem::path> inputs;
  for (const auto *model : {&base, &tuned}) {
    for (const auto &shard : model->file->shards()) inputs.emplace_back(shard.path());
  }
  check_not_input(output, inputs);
  Extractor extractor(base, tuned, options);
  extractor.add_weights();
  extractor.add_vectors();
  return extractor.write(output);
}

}  // namespace patchbay
