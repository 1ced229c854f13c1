#include "tools/extract.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "base/replacement_file.h"
#include "lora/factor_ops.h"
#include "lora/gguf_adapter_writer.h"
#include "model/tensor_names.h"
#include "tools/model_difference.h"
#include "tools/row_chunks.h"
#include "tools/tensor_rows.h"

namespace patchbay {
namespace {

/// A pair in the making: factors of all experts, one after the other.
struct Factors {
  std::vector<float> a;
  std::vector<float> b;
};

std::vector<float> transposed_numbers(std::span<const float> numbers, int64_t n_rows,
                                      int64_t n_cols) {
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
    std::vector<std::optional<FactorPair>> found(pairs.size());
    std::vector<ExtractedPair> reports(pairs.size());
    size_t n_done = 0;
    for_each_chunk(n, n, 1, options_.n_threads, [&](RowChunk chunk) {
      const auto i = static_cast<size_t>(chunk.first);
      found[i] = fit(pairs[i], reports[i]);
      const std::scoped_lock lock(mutex_);
      if (options_.progress) options_.progress(++n_done, pairs.size());
    });
    for (size_t i = 0; i < pairs.size(); ++i) {
      if (auto &pair = found[i]) {
        report_.pairs.push_back(std::move(reports[i]));
        adapter_.pairs.push_back(*std::move(pair));
      } else {
        ++report_.n_equal;
      }
    }
  }

  void add_vectors() {
    for (const auto &pair : different_vectors(base_, tuned_)) {
      report_.vectors.push_back(pair.name);
      if (!options_.ignore_vectors) adapter_.replacements.push_back(new_vector(pair));
    }
    if (report_.vectors.empty()) return;
    report_.notes.emplace_back(
        options_.ignore_vectors
            ? "norms and biases that differ are left out: the adapter lacks what they do"
            : "norms and biases that differ are kept whole, which llama.cpp cannot load; "
              "--ignore-vectors leaves them out");
  }

  ExtractReport write(const std::filesystem::path &output) {
    if (adapter_.pairs.empty() && adapter_.replacements.empty()) {
      throw LoadError({.path = tuned_.info.path,
                       .problem = "has the same weights as the base: there is nothing to extract"});
    }
    adapter_.name = output.stem().string();
    adapter_.path = tuned_.info.path;
    adapter_.base_name = base_.info.name;
    const AdapterWriteOptions options{.type = options_.type,
                                      .provenance = {.extracted_from = tuned_.info.name},
                                      .overwrite = true};
    const auto encoded = encode_adapter(adapter_, options);
    std::ranges::copy(encoded.notes, std::back_inserter(report_.notes));
    write_gguf_adapter(output, adapter_, encoded, base_.info.arch, options);
    report_.size_bytes = std::filesystem::file_size(output);
    return std::move(report_);
  }

 private:
  /// Nothing when the two are equal. Threads do different ones side by side.
  std::optional<FactorPair> fit(const TensorPair &pair, ExtractedPair &report) const {
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
    if (n_rank == 0) return std::nullopt;
    report = {.target = pair.name,
              .kind = pair.kind,
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

  [[nodiscard]] static FactorPair factors_of(const TensorPair &pair,
                                             std::span<const LowRankFit> fits, int64_t n_rank) {
    const auto &ne = pair.base->ne;
    const bool is_table = pair.kind == UseKind::embed;
    Factors factors;
    for (const auto &fit : fits) {
      const int64_t n_own = std::max<int64_t>(fit.n_rank, 1);  // an expert without any change
      std::vector<float> left = fit.left;
      std::vector<float> right = fit.right;
      left.resize(static_cast<size_t>(n_own * ne[1]));
      right.resize(static_cast<size_t>(n_own * ne[0]));
      left = padded_rows(left, n_own, n_rank);
      if (is_table) {
        right = padded_rows(transposed_numbers(right, n_own, ne[0]), n_own, n_rank);
      } else {
        right.resize(static_cast<size_t>(n_rank * ne[0]));
      }
      std::ranges::copy(is_table ? left : right, std::back_inserter(factors.a));
      std::ranges::copy(is_table ? right : left, std::back_inserter(factors.b));
    }
    const std::array<int64_t, 3> ne_left{n_rank, ne[1], ne[2]};
    const std::array<int64_t, 3> ne_right =
        is_table ? std::array{n_rank, ne[0], int64_t{1}} : std::array{ne[0], n_rank, ne[2]};
    return {.target = pair.name,
            .kind = pair.kind,
            .n_rank = n_rank,
            .scale = 1,
            .a = make_factor(is_table ? ne_left : ne_right, std::move(factors.a)),
            .b = make_factor(is_table ? ne_right : ne_left, std::move(factors.b))};
  }

  [[nodiscard]] Replacement new_vector(const TensorPair &pair) const {
    if (!pair.name.ends_with("_norm.weight") && !pair.name.ends_with(k_bias_suffix)) {
      throw LoadError({.path = tuned_.info.path,
                       .item = pair.name,
                       .problem = "differs from the base's, and no adapter can change that",
                       .hint = "--ignore-vectors leaves it out"});
    }
    const int64_t n = (pair.tuned != nullptr ? pair.tuned : pair.base)->ne[0];
    std::vector<float> numbers(static_cast<size_t>(n));
    if (pair.tuned != nullptr) read_rows(*pair.tuned, {.first = 0, .n_rows = 1}, numbers);
    return {.tensor = pair.name, .value = make_factor({n, 1, 1}, std::move(numbers))};
  }

  const LoadedModel &base_;
  const LoadedModel &tuned_;
  const ExtractOptions &options_;
  Adapter adapter_;
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
