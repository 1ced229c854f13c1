#pragma once

#include <string_view>
#include <vector>

namespace patchbay {

/// The instruction sets that kernels are written for, from slowest to fastest; a processor that has
/// one has all before it, but for avx_vnni. A kernel uses the best set that it is written for. On
/// other processors than x86-64 only `plain` exists.
enum class Isa {
  plain,        ///< standard C++, whatever the compiler makes of it
  avx2,         ///< AVX2, FMA, F16C
  avx_vnni,     ///< and the VEX form of VNNI, which matters where there is no AVX-512
  avx512,       ///< AVX-512 F, BW, DQ, VL
  avx512_vnni,  ///< and its VNNI
  avx512_bf16,  ///< and its BF16
};

/// What this processor and its operating system can run, `plain` first.
[[nodiscard]] std::vector<Isa> available_isas();

/// The fastest of them. Any thread.
[[nodiscard]] Isa best_isa();

[[nodiscard]] std::string_view to_string(Isa isa);

}  // namespace patchbay
