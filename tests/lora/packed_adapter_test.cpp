#include "lora/packed_adapter.h"

#include <gmock/gmock.h>

#include <cstring>

#include "lora/factor_ops.h"
#include "lora/random_adapter.h"

namespace patchbay {
namespace {

const std::vector<AdaptableUse> k_uses{{"experts", UseKind::experts, {4, 70, 3}},
                                       {"linear", UseKind::linear, {5, 33, 1}},
                                       {"table", UseKind::embed, {32, 6, 1}}};

uint16_t bits16(const std::byte *bytes, int64_t i) {
  uint16_t bits = 0;
  std::memcpy(&bits, bytes + i * 2, sizeof bits);
  return bits;
}

TEST(PackedAdapter, HasBInTilesOfItsOwnTypeAndRankWithZerosAtTheEnd) {
  const auto adapter = make_random_adapter(k_uses, 3, 1, 1, GGML_TYPE_F16);
  const PackedAdapter packed(*adapter);
  ASSERT_EQ(packed.products().size(), 3U);
  for (const auto &pair : packed.products()) {
    const Factor &b = pair.change->b;
    EXPECT_EQ(pair.b_type, FactorType::f16);
    EXPECT_EQ(pair.n_tiles, (b.ne[1] + 31) / 32);
    for (int64_t e = 0; e < b.ne[2]; ++e) {
      for (int64_t o = 0; o < pair.n_tiles * 32; ++o) {
        for (int64_t r = 0; r < 3; ++r) {
          const uint16_t want = o < b.ne[1] ? bits16(b.data.data(), (e * b.ne[1] + o) * 3 + r) : 0;
          ASSERT_EQ(bits16(pair.b_tiles(e, o / 32), r * 32 + o % 32), want)
              << pair.change->target << " " << e << " " << o << " " << r;
        }
      }
    }
  }
}

TEST(PackedAdapter, HasAInFrontOfBAndALookUpTableWhereTheAdapterHasIt) {
  const auto adapter = make_random_adapter(k_uses, 3, 1, 1);
  const PackedAdapter packed(*adapter);
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const PackedChange &pair = packed.products()[i];
    const auto &a = adapter->pairs[i].a.data;
    EXPECT_EQ(std::memcmp(pair.a_rows(0, 0), a.data(), a.size()), 0);
    EXPECT_LT(pair.a_rows(0, 0), pair.b_tiles(0, 0));
    EXPECT_NE(pair.a_rows(0, 0), a.data());
  }
  EXPECT_EQ(packed.products()[0].a_rows(2, 1) - packed.products()[0].a_rows(0, 0),
            (2 * 3 + 1) * 4 * 4);
  EXPECT_EQ(packed.products()[2].a_rows(0, 0), adapter->pairs[2].a.data.data());
}

TEST(PackedAdapter, TakesTheMemoryOfItsFactors) {
  const std::span linear(k_uses.data() + 1, 1);
  const PackedAdapter packed(*make_random_adapter(linear, 2, 1, 1));
  EXPECT_EQ(packed.size_bytes(), 64 + 2 * 2 * 32 * sizeof(float));
}

}  // namespace
}  // namespace patchbay
