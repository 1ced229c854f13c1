#pragma once

#include <ggml-cpp.h>
#include <ggml-cpu.h>

#include <cmath>
#include <vector>

namespace patchbay {

/// A chain of matrix products, so that every node needs all rows of the one before.
class Chain {
 public:
  explicit Chain(int n_products = 40)
      : context_(ggml_init({.mem_size = 8 << 20, .mem_buffer = nullptr, .no_alloc = false})) {
    constexpr int64_t n = 64;
    ggml_tensor *w = ggml_new_tensor_2d(context_.get(), GGML_TYPE_F32, n, n);
    ggml_tensor *x = ggml_new_tensor_2d(context_.get(), GGML_TYPE_F32, n, 5);
    for (int i = 0; i < ggml_nelements(w); ++i)
      ggml_set_f32_1d(w, i, std::sin(static_cast<float>(i)) / 8);
    for (int i = 0; i < ggml_nelements(x); ++i)
      ggml_set_f32_1d(x, i, std::cos(static_cast<float>(i)));
    for (int i = 0; i < n_products; ++i) x = ggml_mul_mat(context_.get(), w, x);
    graph_ = ggml_new_graph(context_.get());
    ggml_build_forward_expand(graph_, x);
    result_ = x;
  }

  [[nodiscard]] ggml_cgraph *graph() const { return graph_; }
  [[nodiscard]] std::vector<float> result() const {
    const auto *data = ggml_get_data_f32(result_);
    return {data, data + ggml_nelements(result_)};
  }

 private:
  ggml_context_ptr context_;
  ggml_cgraph *graph_ = nullptr;
  ggml_tensor *result_ = nullptr;
};

}  // namespace patchbay
