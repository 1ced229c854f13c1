#include "kernels/isa.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace patchbay {
namespace {

#if defined(__x86_64__)
// What not every compiler's __builtin_cpu_supports() has a name for (Intel SDM, CPUID).

bool has_f16c() {
  constexpr unsigned k_bit = 1U << 29U;
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & k_bit) != 0;
}

bool has_avx_vnni() {
  constexpr unsigned k_leaf = 7;
  constexpr unsigned k_subleaf = 1;
  constexpr unsigned k_bit = 1U << 4U;
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid_count(k_leaf, k_subleaf, &eax, &ebx, &ecx, &edx) != 0 && (eax & k_bit) != 0;
}
#endif

}  // namespace

std::vector<Isa> available_isas() {
  std::vector<Isa> isas{Isa::plain};
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") == 0 || __builtin_cpu_supports("fma") == 0 || !has_f16c())
    return isas;
  isas.push_back(Isa::avx2);
  if (has_avx_vnni()) isas.push_back(Isa::avx_vnni);
  if (__builtin_cpu_supports("avx512f") == 0 || __builtin_cpu_supports("avx512bw") == 0 ||
      __builtin_cpu_supports("avx512dq") == 0 || __builtin_cpu_supports("avx512vl") == 0)
    return isas;
  isas.push_back(Isa::avx512);
  if (__builtin_cpu_supports("avx512vnni") == 0) return isas;
  isas.push_back(Isa::avx512_vnni);
  if (__builtin_cpu_supports("avx512bf16") != 0) isas.push_back(Isa::avx512_bf16);
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
    case Isa::avx_vnni:
      return "avx_vnni";
    case Isa::avx512:
      return "avx512";
    case Isa::avx512_vnni:
      return "avx512_vnni";
    case Isa::avx512_bf16:
      return "avx512_bf16";
  }
  return "plain";
}

}  // namespace patchbay
