#include "model/rotation_store.h"

#include <fmt/format.h>
#include <ggml-cpu.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "base/error.h"

namespace patchbay {
namespace {

/// Wider blocks are turned in two steps: a matrix of the whole block would grow with its square, to
/// a gigabyte for 16384.
constexpr int64_t k_max_matrix = 1024;

/// Sylvester's matrix in natural order over sqrt(n): entry (i, j) is negative when i and j share an
/// odd number of bits.
std::vector<float> walsh_hadamard(int64_t n) {
  const auto size = static_cast<uint64_t>(n);
  const float entry = 1 / std::sqrt(static_cast<float>(n));
  std::vector<float> matrix;
  matrix.reserve(size * size);
  for (uint64_t i = 0; i < size; ++i) {
    for (uint64_t j = 0; j < size; ++j) {
      matrix.push_back(std::popcount(i & j) % 2 == 0 ? entry : -entry);
    }
  }
  return matrix;
}

void upload(ggml_tensor *tensor, const std::vector<float> &values) {
  ggml_backend_tensor_set(tensor, values.data(), 0, values.size() * sizeof(float));
}

}  // namespace

RotationStore::RotationStore(const std::string &path, const HadamardFolding &folding,
                             const TensorTable &table) {
  make_tensors(folding);
  buffer_.reset(
      ggml_backend_alloc_ctx_tensors_from_buft(context_.get(), ggml_backend_cpu_buffer_type()));
  if (!buffer_) {
    throw LoadError({.path = path,
                     .problem = "needs more memory for its Hadamard transforms than there is",
                     .code = ErrorCode::out_of_memory});
  }
  fill(folding);
  for (const auto &spec : table.specs()) {
    const std::string &stored = spec.is_tied() ? spec.tied_to->name : spec.name;
    const bool folded = folding.folds(stored);
    if (folded) spec.weight->rotation = rotation_of(spec.ne[0]);
  }
}

void RotationStore::make_tensors(const HadamardFolding &folding) {
  constexpr size_t k_n_matrices = 2;
  context_.reset(
      ggml_init({.mem_size = ggml_tensor_overhead() * (folding.signs.size() + k_n_matrices),
                 .mem_buffer = nullptr,
                 .no_alloc = true}));
  const auto matrix = [this](int64_t n) {
    return ggml_new_tensor_2d(context_.get(), GGML_TYPE_F32, n, n);
  };
  const int64_t n_inner = std::min(folding.block_size, k_max_matrix);
  const int64_t n_outer = folding.block_size / n_inner;
  plain_.inner = matrix(n_inner);
  if (n_outer > 1) plain_.outer = matrix(n_outer);
  for (const auto &[width, signs] : folding.signs) {
    Rotation &rotation = by_width_[width] = plain_;
    rotation.signs = ggml_new_tensor_1d(context_.get(), GGML_TYPE_F32, width);
  }
}

void RotationStore::fill(const HadamardFolding &folding) const {
  for (ggml_tensor *matrix : {plain_.inner, plain_.outer}) {
    if (matrix != nullptr) upload(matrix, walsh_hadamard(matrix->ne[0]));
  }
  for (const auto &[width, signs] : folding.signs) upload(by_width_.at(width).signs, signs);
}

const Rotation *RotationStore::rotation_of(int64_t width) {
  const auto found = by_width_.find(width);
  return found == by_width_.end() ? &plain_ : &found->second;
}

}  // namespace patchbay
