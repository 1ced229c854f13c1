#include "lora/peft_factors.h"

#include <utility>

#include "base/error.h"
#include "lora/factor_ops.h"
#include "lora/peft_shapes.h"

namespace patchbay {

Factor read_factor(const std::shared_ptr<const SafetensorsFile> &file, const SafeTensor &tensor) {
  const auto refuse = [&](const char *problem, std::string found = {}) {
    throw LoadError(
        {.path = file->path(), .item = tensor.name, .problem = problem, .found = std::move(found)});
  };
  const int64_t n_rows = tensor.shape.size() == 1 ? 1 : tensor.shape.front();
  const std::array<int64_t, 3> ne{tensor.shape.back(), n_rows, 1};
  Factor factor{.ne = ne, .data = tensor.data, .owner = file};
  if (const auto type = factor_type(tensor.dtype)) {
    factor.type = *type;
  } else if (tensor.dtype == "F64") {
    if (auto values = f64_to_f32(tensor.data)) {
      factor = make_factor(ne, std::move(*values));
    } else {
      refuse("holds a number that overflows F32");
    }
  } else {
    refuse("has a dtype that cannot be a factor", tensor.dtype);
  }
  if (!all_finite(factor)) refuse("holds NaN or infinity");
  return factor;
}

Factor planned_rows(Factor factor, const BaseInfo &base, RowPlan plan) {
  if (plan == RowPlan::as_is) return factor;
  const auto ne = factor.ne;
  const bool is_vector = ne[1] == 1;
  if (is_vector) factor.ne = {1, ne[0], 1};
  factor = reorder_rotary_rows(factor, n_heads(base, plan));
  factor.ne = ne;
  return factor;
}

}  // namespace patchbay
