#include "kernels/isa.h"

namespace patchbay {

std::vector<Isa> available_isas() {
  std::vector<Isa> isas{Isa::plain};
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool has_avx2 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0 &&
                        __builtin_cpu_supports("f16c") != 0;
  const bool has_avx512 =
      __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
      __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
  if (has_avx2) isas.push_back(Isa::avx2);
  if (has_avx2 && has_avx512) isas.push_back(Isa::avx512);
#endif
  return isas;
}

Isa best_isa() {
  static const Isa best = available_isas().back();
  return best;
}

std::string_view to_string(Isa isa) {
  switch (isa) {
    case Isa::plain:
      return "plain";
    case Isa::avx2:
      return "avx2";
    case Isa::avx512:
      return "avx512";
  }
  return "plain";
}

}  // namespace patchbay
