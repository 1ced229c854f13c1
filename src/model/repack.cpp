#include "model/repack.h"

#include <ggml-cpp.h>
#include <ggml-cpu.h>

#include <string_view>

namespace patchbay {
namespace {

/// Asks the device, on a product with shapes like the real one. Writing a tensor that ggml cannot
/// repack into such a buffer is a crash, so its word is needed before the buffer is chosen.
bool device_repacks(TensorRole role, const ggml_tensor &tensor) {
  constexpr size_t k_n_tensors = 4;
  ggml_context_ptr context(ggml_init(
      {.mem_size = ggml_tensor_overhead() * k_n_tensors, .mem_buffer = nullptr, .no_alloc = true}));
  ggml_backend_buffer_ptr buffer(ggml_backend_buft_alloc_buffer(repack_buffer_type(), 0));
  ggml_tensor *weight = ggml_new_tensor(context.get(), tensor.type, GGML_MAX_DIMS, tensor.ne);
  weight->buffer = buffer.get();
  ggml_tensor *op = nullptr;
  if (role == TensorRole::experts) {
    ggml_tensor *x = ggml_new_tensor_3d(context.get(), GGML_TYPE_F32, tensor.ne[0], 1, 1);
    ggml_tensor *ids = ggml_new_tensor_2d(context.get(), GGML_TYPE_I32, 1, 1);
    op = ggml_mul_mat_id(context.get(), weight, x, ids);
  } else {
    op = ggml_mul_mat(context.get(), weight,
                      ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, tensor.ne[0], 1));
  }
  return ggml_backend_dev_supports_op(ggml_backend_buft_get_device(repack_buffer_type()), op);
}

}  // namespace

ggml_backend_buffer_type_t repack_buffer_type() {
  static const ggml_backend_buffer_type_t found = []() -> ggml_backend_buffer_type_t {
    ggml_backend_reg_t registry = ggml_backend_cpu_reg();
    ggml_backend_dev_t device = ggml_backend_reg_dev_get(registry, 0);
    auto *get_extra = reinterpret_cast<ggml_backend_dev_get_extra_bufts_t>(
        ggml_backend_reg_get_proc_address(registry, "ggml_backend_dev_get_extra_bufts"));
    if (get_extra == nullptr) return nullptr;
    ggml_backend_buffer_type_t *types = get_extra(device);
    for (; types != nullptr && *types != nullptr; ++types) {
      if (std::string_view(ggml_backend_buft_name(*types)) == "CPU_REPACK") return *types;
    }
    return nullptr;
  }();
  return found;
}

bool can_interleave(TensorRole role, const ggml_tensor &tensor) {
  return repack_buffer_type() != nullptr && device_repacks(role, tensor);
}

}  // namespace patchbay
