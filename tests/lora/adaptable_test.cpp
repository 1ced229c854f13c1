#include "lora/adaptable.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "gguf/load_failure.h"
#include "peft_builder.h"
#include "small_bases.h"

namespace patchbay {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr const char *k_refusal = "targets a prism.hadamard latent lookup table";

/// A base whose tied table is stored Hadamard-folded.
BaseInfo base_with_folded_table() {
  BaseInfo base = dense_base("llama", /*tied_head=*/true);
  for (auto &use : base.uses) {
    use.rotated_table = use.name == "token_embd.weight" || use.name == "output.weight";
  }
  return base;
}

std::string failure(const PeftBuilder &builder) {
  return load_failure([&] { (void)builder.load(base_with_folded_table()); });
}

TEST(Adaptable, APeftPairOnAFoldedTableIsRefusedInBothOfItsUses) {
  PeftBuilder on_input = one_pair();
  on_input.embedding("model.embed_tokens", numbered(2, 10), numbered(8, 2));
  EXPECT_THAT(failure(on_input), AllOf(HasSubstr("embed_tokens"), HasSubstr(k_refusal),
                                       HasSubstr("token_embd.weight")));
  PeftBuilder on_output = one_pair();
  on_output.pair("lm_head", 8, 10);
  EXPECT_THAT(failure(on_output),
              AllOf(HasSubstr("lm_head"), HasSubstr(k_refusal), HasSubstr("output.weight")));
  EXPECT_EQ(one_pair().load(base_with_folded_table())->pairs.size(), 1U);
}

TEST(Adaptable, OtherUsesPass) {
  const AdaptableUse use{.name = "output.weight"};
  EXPECT_NO_THROW(check_adaptable("adapter.gguf", use.name, use));
}

}  // namespace
}  // namespace patchbay
