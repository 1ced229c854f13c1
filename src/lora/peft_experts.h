#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lora/adapter.h"

namespace patchbay {

/// The pair of one expert; experts of one weight may differ in rank, scale and type.
struct ExpertPart {
  int64_t i_expert = 0;
  Factor a;  ///< [n_in, n_rank]
  Factor b;  ///< [n_rank, n_out]
  float scale = 1;
  Factor magnitude{.ne = {0, 1, 1}};  ///< as in FactorPair, [n_out]
};

/// Stacks the pairs of single experts into one of kind `experts`. Missing experts and missing ranks
/// become zeros; a missing expert's magnitudes too. Where the scales differ they are folded into B,
/// in F32, and the pair's scale is 1. REQUIRES: at least one part, all of one n_in and n_out, no
/// expert twice, each i_expert below n_expert.
[[nodiscard]] FactorPair stack_experts(std::string target, int64_t n_expert,
                                       const std::vector<ExpertPart> &parts);

/// Factors of all experts in one matrix each, as PEFT's ParamWrapper keeps them. The rank stands
/// differently in the two: row `e n_rank + k` of A, column `k n_expert + e` of B.
struct FusedFactors {
  Factor a;  ///< [n_in, n_rank n_expert]; swapped: [n_out, n_rank n_expert]
  Factor b;  ///< [n_rank n_expert, n_out]; swapped: [n_rank n_expert, n_in]
  int64_t n_rank = 0;
  int64_t n_expert = 0;
  int64_t n_in = 0;
  int64_t n_out = 0;
  bool swapped =
      false;  ///< written before PEFT 0.19.1, which took n_out for n_in: each delta is (B A)^T
};

/// Factors [n_in, n_rank, n_expert] and [n_rank, n_rows, n_expert] of the rows [i_row, i_row +
/// n_rows) of the weight. The scale of the result is 1.
[[nodiscard]] FactorPair unfuse_experts(std::string target, const FusedFactors &fused,
                                        int64_t i_row, int64_t n_rows);

}  // namespace patchbay
