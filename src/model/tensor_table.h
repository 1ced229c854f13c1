#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "model/weights.h"

namespace patchbay {

/// What a tensor is used for; decides where it may live and which types it may have.
enum class TensorRole {
  table,    ///< rows are looked up (and multiplied, when it is a tied head): any type that has
            ///< get_rows
  linear,   ///< multiplied: any type
  experts,  ///< multiplied per expert: any type
  vector,   ///< norm, bias or rope factors: F32
};

/// One line of a family's tensor table: the single place where a name meets its shape.
struct TensorSpec {
  std::string name;
  std::array<int64_t, 3> ne{1, 1, 1};  ///< ggml order
  TensorRole role = TensorRole::linear;
  bool required = true;
  Weight *weight = nullptr;  ///< receives what is loaded; outlives the loading
  /// Whose rows this weight multiplies where the file has none of its own.
  const Weight *tied_to = nullptr;

  /// Whether the file has no rows of its own for this weight. After loading.
  [[nodiscard]] bool is_tied() const {
    return tied_to != nullptr && weight->tensor == tied_to->tensor;
  }
};

/// Every tensor a model may have. The loader reads only this and knows no family; a tensor in the
/// file that no line names is refused, since a weight that the graph ignores means wrong answers.
class TensorTable {
 public:
  void table(Weight &weight, std::string name, int64_t n_row, int64_t n_rows) {
    add({std::move(name), {n_row, n_rows, 1}, TensorRole::table, true, &weight});
  }
  void vector(Weight &weight, std::string name, int64_t n, bool required = true) {
    add({std::move(name), {n, 1, 1}, TensorRole::vector, required, &weight});
  }
  /// `stem`.weight [n_in, n_out] and an optional `stem`.bias.
  void linear(LinearWeights &linear, const std::string &stem, int64_t n_in, int64_t n_out) {
    add({stem + ".weight", {n_in, n_out, 1}, TensorRole::linear, true, &linear.weight});
    vector(linear.bias, stem + ".bias", n_out, false);
  }
  void experts(Weight &weight, std::string name, int64_t n_in, int64_t n_out, int64_t n_expert) {
    add({std::move(name), {n_in, n_out, n_expert}, TensorRole::experts, true, &weight});
  }
  /// output.weight; where the file has none, the model's head multiplies the rows of `table`, which
  /// is one before it.
  void head(Weight &weight, const Weight &table, int64_t n_embd, int64_t n_vocab) {
    add({"output.weight", {n_embd, n_vocab, 1}, TensorRole::linear, false, &weight, &table});
  }

  /// Linear weights that read one input: where they can and are not packed, their rows are kept in
  /// one tensor, in this order, and each weight is a view of its own.
  void join(std::vector<const Weight *> weights) { joins_.push_back(std::move(weights)); }

  [[nodiscard]] const std::vector<TensorSpec> &specs() const & { return specs_; }
  const std::vector<TensorSpec> &specs() && = delete;  // would dangle
  [[nodiscard]] const std::vector<std::vector<const Weight *>> &joins() const { return joins_; }

 private:
  void add(TensorSpec spec) { specs_.push_back(std::move(spec)); }

  std::vector<TensorSpec> specs_;
  std::vector<std::vector<const Weight *>> joins_;
};

}  // namespace patchbay
