#include "kernels/attention.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace patchbay {
namespace {

/// Rows of a step: tokens of a sequence from `first_pos` on.
struct Piece {
  size_t i_seq = 0;
  uint32_t first_pos = 0;
  uint32_t n_rows = 1;
};

/// Exact for what the tests store: normal numbers of 10 bits.
uint16_t to_f16(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  if (value == 0) return 0;
  return static_cast<uint16_t>((bits >> 16U & 0x8000U) | ((bits >> 23U & 0xFFU) - 112U) << 10U |
                               (bits >> 13U & 0x3FFU));
}

/// Multiples of 1/128 within (-2, 2): what each type of cache can hold.
std::vector<float> random_numbers(size_t n, std::mt19937 &random) {
  std::uniform_int_distribution<int> numbers(-127, 127);
  std::vector<float> values(n);
  for (auto &value : values) value = static_cast<float>(numbers(random)) / 64;
  return values;
}

/// A cache with sequences in blocks at random places, and the plain numbers beside it. What the
/// sequences hold does not depend on the places.
class Setting {
 public:
  Setting(const AttentionShape &shape, CacheNumber number, const std::vector<uint32_t> &n_tokens,
          uint32_t seed_of_places = 1)
      : shape_(shape), number_(number) {
    uint32_t n_blocks = 1;
    for (const uint32_t n : n_tokens) n_blocks += n_blocks_of(n);
    std::vector<int32_t> places(n_blocks);
    std::iota(places.begin(), places.end(), 0);
    std::shuffle(places.begin(), places.end(), std::mt19937(seed_of_places));
    // What nobody owns, and what lies behind a sequence's last token, must not be looked at: NaN.
    const size_t n_bytes = size_t{n_blocks} * shape.n_head_kv * shape.block_size * row_bytes();
    k_bytes_.assign(n_bytes, '\xFF');
    v_bytes_.assign(n_bytes, '\xFF');
    std::mt19937 content(1);
    for (const uint32_t n : n_tokens) {
      tables_.emplace_back(places.end() - n_blocks_of(n), places.end());
      places.resize(places.size() - n_blocks_of(n));
      q_.push_back(random_numbers(n * n_row(), content));
      k_.push_back(random_numbers(size_t{n} * shape.n_head_kv * shape.n_embd_head, content));
      v_.push_back(random_numbers(size_t{n} * shape.n_head_kv * shape.n_embd_head, content));
      store(k_.back(), tables_.back(), k_bytes_);
      store(v_.back(), tables_.back(), v_bytes_);
    }
  }

  [[nodiscard]] size_t n_row() const { return size_t{shape_.n_head} * shape_.n_embd_head; }

  /// F32 [n_embd_head, n_head, n_rows].
  [[nodiscard]] std::vector<float> compute(Isa isa, const std::vector<Piece> &pieces,
                                           uint32_t n_threads = 1) const {
    std::vector<AttentionRun> runs;
    std::vector<float> q;
    for (const auto &[i_seq, first_pos, n_rows] : pieces) {
      runs.push_back({.first_row = static_cast<uint32_t>(q.size() / n_row()),
                      .n_rows = n_rows,
                      .first_pos = first_pos,
                      .blocks = tables_[i_seq]});
      const float *first = q_[i_seq].data() + first_pos * n_row();
      q.insert(q.end(), first, first + n_rows * n_row());
    }
    AttentionPlan plan(shape_);
    plan.set(runs, n_threads);
    const AttentionCache cache{
        .k = k_bytes_.data(), .v = v_bytes_.data(), .row_bytes = row_bytes(), .number = number_};
    std::vector<float> out(q.size(), std::numeric_limits<float>::quiet_NaN());
    for (int layer = 0; layer < 2; ++layer) {  // a plan serves many layers
      std::vector<std::thread> threads;
      for (uint32_t i = 0; i < n_threads; ++i) {
        threads.emplace_back(
            [&, i] { run_attention(plan, cache, q.data(), out.data(), isa, i, n_threads); });
      }
      for (auto &thread : threads) thread.join();
    }
    return out;
  }

  /// The definition, in double.
  [[nodiscard]] std::vector<double> expected(const std::vector<Piece> &pieces) const {
    std::vector<double> out;
    for (const auto &[i_seq, first_pos, n_rows] : pieces) {
      for (uint32_t pos = first_pos; pos < first_pos + n_rows; ++pos) {
        for (uint32_t head = 0; head < shape_.n_head; ++head) {
          const float *q = q_[i_seq].data() + pos * n_row() + size_t{head} * shape_.n_embd_head;
          const auto row = expected(i_seq, pos, head / shape_.n_group(), q);
          out.insert(out.end(), row.begin(), row.end());
        }
      }
    }
    return out;
  }

 private:
  [[nodiscard]] uint32_t n_blocks_of(uint32_t n_tokens) const {
    return (n_tokens + shape_.block_size - 1) / shape_.block_size;
  }

  [[nodiscard]] size_t row_bytes() const {
    switch (number_) {
      case CacheNumber::f32:
        return 4 * size_t{shape_.n_embd_head};
      case CacheNumber::q8_0:
        return shape_.n_embd_head / 32 * 34;
      default:
        return 2 * size_t{shape_.n_embd_head};
    }
  }

  void store(const std::vector<float> &rows, const std::vector<int32_t> &table,
             std::string &bytes) const {
    const uint32_t block_size = shape_.block_size;
    const size_t n_rows = rows.size() / shape_.n_embd_head;
    for (size_t row = 0; row < n_rows; ++row) {
      const size_t pos = row / shape_.n_head_kv;
      const size_t head = row % shape_.n_head_kv;
      const auto block = static_cast<size_t>(table[pos / block_size]);
      const size_t place = (block * shape_.n_head_kv + head) * block_size + pos % block_size;
      encode(rows.data() + row * shape_.n_embd_head, bytes.data() + place * row_bytes());
    }
  }

  void encode(const float *values, char *to) const {
    for (uint32_t j = 0; j < shape_.n_embd_head; ++j) {
      if (number_ == CacheNumber::f32) std::memcpy(to + 4 * size_t{j}, values + j, 4);
      const uint16_t half = to_f16(values[j]);
      if (number_ == CacheNumber::f16) std::memcpy(to + 2 * size_t{j}, &half, 2);
      if (number_ != CacheNumber::q8_0) continue;
      char *block = to + size_t{j} / 32 * 34;
      const uint16_t scale = to_f16(1.0F / 64);
      std::memcpy(block, &scale, 2);
      block[2 + j % 32] = static_cast<char>(std::lround(values[j] * 64));
    }
  }

  [[nodiscard]] std::vector<double> expected(size_t i_seq, uint32_t pos, uint32_t head_kv,
                                             const float *q) const {
    const uint32_t n = shape_.n_embd_head;
    const auto row = [&](const std::vector<float> &rows, uint32_t key) {
      return rows.data() + (size_t{key} * shape_.n_head_kv + head_kv) * n;
    };
    const uint32_t first = shape_.n_swa == 0 || pos < shape_.n_swa ? 0 : pos - shape_.n_swa + 1;
    std::vector<double> out(n, 0);
    double sum = 0;
    for (uint32_t key = first; key <= pos; ++key) {
      double score = 0;
      for (uint32_t j = 0; j < n; ++j)
        score += static_cast<double>(q[j]) * static_cast<double>(row(k_[i_seq], key)[j]);
      const double weight = std::exp(score * static_cast<double>(shape_.scale));
      sum += weight;
      for (uint32_t j = 0; j < n; ++j)
        out[j] += weight * static_cast<double>(row(v_[i_seq], key)[j]);
    }
    for (auto &value : out) value /= sum;
    return out;
  }

  AttentionShape shape_;
  CacheNumber number_;
  std::vector<std::vector<int32_t>> tables_;
  std::vector<std::vector<float>> q_;  // per sequence, of all its tokens
  std::vector<std::vector<float>> k_;
  std::vector<std::vector<float>> v_;
  std::string k_bytes_;
  std::string v_bytes_;
};

AttentionShape shape_of(uint32_t n_embd_head, uint32_t n_head, uint32_t n_head_kv,
                        uint32_t n_swa = 0, uint32_t block_size = 32) {
  return {.n_embd_head = n_embd_head,
          .n_head = n_head,
          .n_head_kv = n_head_kv,
          .n_swa = n_swa,
          .block_size = block_size,
          .scale = 1 / std::sqrt(static_cast<float>(n_embd_head))};
}

class AttentionOf : public testing::TestWithParam<Isa> {
 protected:
  static void expect_right(const Setting &setting, const std::vector<Piece> &pieces,
                           const std::string &what) {
    const auto computed = setting.compute(GetParam(), pieces);
    const auto expected = setting.expected(pieces);
    ASSERT_EQ(computed.size(), expected.size());
    double most = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      const double difference = std::abs(static_cast<double>(computed[i]) - expected[i]);
      most = difference <= most ? most : difference;  // takes a NaN over
    }
    // Values are within 2; sums of F32 with some hundred terms lose a few bits.
    EXPECT_LT(most, 1e-5) << what;
  }

  /// Row `pos` of a result that begins at position `first_pos`.
  static std::vector<float> row(const Setting &setting, const std::vector<float> &result,
                                uint32_t pos, uint32_t first_pos = 0) {
    const auto first = result.begin() + static_cast<ptrdiff_t>((pos - first_pos) * setting.n_row());
    return {first, first + static_cast<ptrdiff_t>(setting.n_row())};
  }
};

TEST_P(AttentionOf, EveryHeadSizeGroupAndTypeIsTheDefinition) {
  for (const CacheNumber number : {CacheNumber::f16, CacheNumber::f32, CacheNumber::q8_0}) {
    for (const uint32_t n_embd_head : {8U, 20U, 64U, 80U, 96U, 128U, 256U}) {
      if (number == CacheNumber::q8_0 && n_embd_head % 32 != 0) continue;
      for (const auto &[n_head, n_head_kv] :
           {std::pair{1U, 1U}, {3U, 3U}, {6U, 2U}, {4U, 1U}, {70U, 1U}}) {
        const Setting setting(shape_of(n_embd_head, n_head, n_head_kv), number, {41, 12});
        expect_right(setting, {{.i_seq = 0, .first_pos = 40}, {.i_seq = 1, .n_rows = 12}},
                     fmt::format("heads {}/{} of {}", n_head, n_head_kv, n_embd_head));
      }
    }
  }
}

TEST_P(AttentionOf, LengthsAroundTheBordersOfBlocksAndPartitionsAreTheDefinition) {
  const std::vector<uint32_t> n_tokens{1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 256, 257, 513};
  std::vector<Piece> pieces;
  for (const uint32_t n : n_tokens) pieces.push_back({.i_seq = pieces.size(), .first_pos = n - 1});
  pieces.push_back({.i_seq = n_tokens.size() - 1, .first_pos = 250, .n_rows = 30});
  for (const uint32_t block_size : {4U, 32U, 48U}) {
    for (const uint32_t n_swa : {0U, 1U, 5U, 31U, 32U, 33U, 256U, 300U}) {
      const Setting setting(shape_of(16, 4, 2, n_swa, block_size), CacheNumber::f16, n_tokens);
      expect_right(setting, pieces, fmt::format("blocks of {}, window {}", block_size, n_swa));
    }
  }
}

TEST_P(AttentionOf, ARowAloneHasTheBitsItHasAmongOthers) {
  for (const CacheNumber number : {CacheNumber::f16, CacheNumber::q8_0}) {
    for (const uint32_t n_swa : {0U, 40U, 300U}) {
      const auto shape = shape_of(64, 6, 2, n_swa);
      const Setting setting(shape, number, {600, 50, 300});
      const Setting elsewhere(shape, number, {600, 50, 300}, 2);
      const auto whole = setting.compute(
          GetParam(), {{.i_seq = 0, .n_rows = 600}, {.i_seq = 1, .first_pos = 3, .n_rows = 40}});
      for (const uint32_t pos : {0U, 31U, 32U, 255U, 256U, 300U, 599U}) {
        const std::vector<Piece> alone{{.i_seq = 0, .first_pos = pos}};
        const std::vector<Piece> mixed{{.i_seq = 2, .first_pos = 299},
                                       {.i_seq = 0, .first_pos = pos},
                                       {.i_seq = 1, .n_rows = 50}};
        const auto wanted = row(setting, whole, pos);
        EXPECT_EQ(setting.compute(GetParam(), alone), wanted) << pos;
        EXPECT_EQ(elsewhere.compute(GetParam(), alone), wanted) << pos;
        EXPECT_EQ(row(setting, setting.compute(GetParam(), mixed), 1), wanted) << pos;
      }
    }
  }
}

TEST_P(AttentionOf, AnyNumberOfThreadsGivesTheSameBits) {
  const Setting setting(shape_of(64, 6, 2), CacheNumber::f16, {1500, 50});
  for (const auto &pieces : {std::vector<Piece>{{.i_seq = 0, .first_pos = 1499}},
                             std::vector<Piece>{{.i_seq = 0, .first_pos = 1400, .n_rows = 90},
                                                {.i_seq = 1, .first_pos = 49}}}) {
    const auto one = setting.compute(GetParam(), pieces, 1);
    for (const uint32_t n_threads : {2U, 3U, 7U})
      EXPECT_EQ(setting.compute(GetParam(), pieces, n_threads), one) << n_threads;
  }
}

INSTANTIATE_TEST_SUITE_P(EveryIsa, AttentionOf, testing::ValuesIn(available_isas()),
                         [](const auto &param) { return std::string(to_string(param.param)); });

}  // namespace
}  // namespace patchbay
