#include "lora/combined_pair.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "lora/factor_encoding.h"
#include "lora/factor_ops.h"

namespace patchbay {
namespace {

bool same_numbers(const Factor &one, const Factor &other) {
  return one.type == other.type && one.ne == other.ne && std::ranges::equal(one.data, other.data);
}

/// A part with factors of one type and scale with the others.
struct Prepared {
  const Factor *a = nullptr;  // of the part's pair
  Factor own_a;               // where that had to be converted
  Factor b;
  int64_t n_rows = 0;
  int64_t n_rank = 0;
  int64_t i_row = 0;
  int64_t i_rank = 0;
};

Factor multiplied(const std::string &path, const FactorPair &pair, double multiplier) {
  const auto encoded =
      encode_factor(path, pair.target + ", folded B", pair.b, multiplier, GGML_TYPE_F32);
  return {.type = GGML_TYPE_F32, .ne = pair.b.ne, .data = encoded.data, .owner = encoded.owner};
}

/// The pairs that there are.
std::vector<const FactorPair *> pairs_of(std::span<const RowPart> parts) {
  std::vector<const FactorPair *> pairs;
  for (const auto &part : parts) {
    if (part.pair != nullptr) pairs.push_back(part.pair);
  }
  return pairs;
}

template <class Test>
bool all_like_first(const std::vector<const FactorPair *> &pairs, Test test) {
  return std::ranges::all_of(pairs,
                             [&](const FactorPair *pair) { return test(*pairs.front(), *pair); });
}

/// Copies a part's rows of B to where they belong.
void put_b(const Prepared &part, const Factor &like, std::vector<std::byte> &bytes) {
  const size_t size = ggml_type_size(like.type);
  const auto n_row = static_cast<size_t>(part.n_rank) * size;
  for (int64_t e = 0; e < like.ne[2]; ++e) {
    for (int64_t row = 0; row < part.n_rows; ++row) {
      const auto from = static_cast<size_t>(e * part.n_rows + row) * n_row;
      const auto to =
          static_cast<size_t>((e * like.ne[1] + part.i_row + row) * like.ne[0] + part.i_rank) *
          size;
      std::memcpy(bytes.data() + to, part.b.data.data() + from, n_row);
    }
  }
}

/// Copies a part's rows of A, one per rank.
void put_a(const Prepared &part, const Factor &like, std::vector<std::byte> &bytes) {
  const size_t n_row = static_cast<size_t>(like.ne[0]) * ggml_type_size(like.type);
  const size_t n_part = static_cast<size_t>(part.n_rank) * n_row;
  for (int64_t e = 0; e < like.ne[2]; ++e) {
    const auto to = static_cast<size_t>(e * like.ne[1] + part.i_rank) * n_row;
    std::memcpy(bytes.data() + to, part.a->data.data() + static_cast<size_t>(e) * n_part, n_part);
  }
}

size_t size_of(const Factor &factor) {
  return static_cast<size_t>(factor.n_elements()) * ggml_type_size(factor.type);
}

}  // namespace

CombinedPair combine_rows(const std::string &path, std::span<const RowPart> parts) {
  const auto pairs = pairs_of(parts);
  const FactorPair &first = *pairs.front();
  const bool same_scale = all_like_first(
      pairs, [](const auto &one, const auto &other) { return one.scale == other.scale; });
  const bool same_type_a = all_like_first(
      pairs, [](const auto &one, const auto &other) { return one.a.type == other.a.type; });
  const bool same_type_b = all_like_first(
      pairs, [](const auto &one, const auto &other) { return one.b.type == other.b.type; });
  const bool shared_a = all_like_first(
      pairs, [](const auto &one, const auto &other) { return same_numbers(one.a, other.a); });
  std::vector<Prepared> prepared;
  int64_t n_rank = 0;
  int64_t n_rows = 0;
  for (const auto &part : parts) {
    if (part.pair != nullptr) {
      Prepared one{.a = &part.pair->a, .n_rows = part.n_rows, .n_rank = part.pair->n_rank};
      one.i_row = n_rows;
      one.i_rank = shared_a ? 0 : n_rank;
      if (!same_type_a) one.own_a = scaled_f32(part.pair->a, 1);
      one.b = same_scale && same_type_b
                  ? part.pair->b
                  : multiplied(path, *part.pair, same_scale ? 1 : double{part.pair->scale});
      n_rank = shared_a ? one.n_rank : n_rank + one.n_rank;
      prepared.push_back(std::move(one));
    }
    n_rows += part.n_rows;
  }
  for (auto &one : prepared) {
    if (!same_type_a) one.a = &one.own_a;
  }
  const int64_t n_expert = first.a.ne[2];
  Factor a{.type = prepared.front().a->type, .ne = {first.a.ne[0], n_rank, n_expert}};
  Factor b{.type = prepared.front().b.type, .ne = {n_rank, n_rows, n_expert}};
  std::vector<std::byte> bytes_a(size_of(a));
  std::vector<std::byte> bytes_b(size_of(b));  // all bits 0 is the number 0 in every type
  for (const auto &one : prepared) {
    put_a(one, a, bytes_a);
    put_b(one, b, bytes_b);
  }
  return {.n_rank = n_rank,
          .scale = same_scale ? first.scale : 1,
          .a = make_factor(a.type, a.ne, std::move(bytes_a)),
          .b = make_factor(b.type, b.ne, std::move(bytes_b))};
}

}  // namespace patchbay
