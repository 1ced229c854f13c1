// Random sequences over tiny and roomy tables, beside a model of both halves of the promise: what
// lies in a cell is what the sequence's tokens so far say, and a hit is as long as what was
// computed allows.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <set>
#include <tuple>

#include "kv/prefix_support.h"

namespace patchbay {
namespace {

/// All that keys and values of a token depend on, as a number: equal ones are the same.
class Keys {
 public:
  /// Of each token of a tenant's sequence.
  std::vector<uint64_t> of(const std::string &tenant, const PrefixContent &content) {
    uint64_t before = number({0, tenant, 0, {}});
    std::vector<uint64_t> keys;
    for (uint32_t i = 0; i < content.n_tokens(); ++i) {
      const PrefixContent one = content.slice(i, 1);
      before = number({before, "", one.tokens()[0], one.worn()[0].digest});
      keys.push_back(before);
    }
    return keys;
  }

 private:
  using Key = std::tuple<uint64_t, std::string, int32_t, Sha256Digest>;
  uint64_t number(const Key &key) {
    return numbers_.emplace(key, numbers_.size() + 1).first->second;
  }

  std::map<Key, uint64_t> numbers_;
};

struct Setup {
  KvSizes sizes;
  uint32_t n_swa = 0;
  uint64_t seed = 1;
};

class RandomSequences {
 public:
  explicit RandomSequences(const Setup &setup)
      : random_(setup.seed),
        tables_(setup.sizes, setup.n_swa),
        full_cells_(setup.sizes.n_cells()),
        window_cells_(setup.sizes.n_cells_swa()) {}

  void run(uint32_t n_operations) {
    for (uint32_t i = 0; i < n_operations; ++i) {
      operate();
      ASSERT_EQ(check_invariants(snapshot_of(tables_)), "") << "operation " << i;
      ASSERT_NO_FATAL_FAILURE(check_cells()) << "operation " << i;
    }
    while (!live_.empty()) release(live_.begin()->first);
    const BlockPool &pool = tables_.full().pool();
    EXPECT_EQ(pool.n_free() + pool.n_idle(), pool.n_blocks()) << "memory is left behind";
  }

  uint64_t n_hit_tokens = 0;
  uint64_t n_exact_hits = 0;
  uint64_t n_refused = 0;
  uint64_t n_copies = 0;

  [[nodiscard]] uint64_t n_evicted() const {
    return tables_.prefixes().counters().n_blocks_evicted;
  }

 private:
  struct Live {
    std::string tenant;
    PrefixContent content;  ///< all known tokens; those in the tables are computed
  };

  uint32_t below(uint32_t end) { return static_cast<uint32_t>(random_() % end); }

  void operate() {
    const uint32_t what = below(8);
    if (what < 2 && live_.size() < 6) {
      begin();
    } else if (what < 5) {
      step();
    } else if (what == 5) {
      fork();
    } else if (what == 6 && !live_.empty()) {
      adopt_again(any());
    } else if (what == 7 && !live_.empty()) {
      release(any());
    }
  }

  /// Few tokens and few sets, so that beginnings meet again and again.
  void grow(PrefixContent &content, uint32_t n_tokens) {
    auto worn = static_cast<unsigned char>(below(4) == 0 ? below(3) : 0);
    for (uint32_t i = 0; i < n_tokens; ++i) {
      if (below(8) == 0) worn = static_cast<unsigned char>(below(2));
      content.push_back(below(6) == 0 ? 1 : 0, digest(worn));
    }
  }

  int32_t free_id() {
    int32_t seq_id = 0;
    while (live_.contains(seq_id)) ++seq_id;
    return seq_id;
  }

  int32_t any() {
    return std::next(live_.begin(), below(static_cast<uint32_t>(live_.size())))->first;
  }

  void begin() {
    const int32_t seq_id = free_id();
    Live live{.tenant = below(4) == 0 ? "b" : "a"};
    grow(live.content, 1 + below(20));
    const auto keys = keys_.of(live.tenant, live.content);
    const uint64_t n_possible = longest_computed(keys);
    const uint32_t n_found = tables_.prefixes().match(live.tenant, live.content).n_tokens;
    tables_.prefixes().begin(seq_id, live.tenant);
    tables_.prefixes().adopt(seq_id, live.content);
    ASSERT_EQ(tables_.n_tokens(seq_id), n_found);
    ASSERT_LE(n_found, n_possible);
    if (n_evicted() == 0) {
      ASSERT_EQ(n_found, n_possible);
      ++n_exact_hits;
    }
    n_hit_tokens += n_found;
    live_[seq_id] = std::move(live);
  }

  /// Others may have computed more in the meantime.
  void adopt_again(int32_t seq_id) {
    const Live &live = live_.at(seq_id);
    const uint32_t n_before = tables_.n_tokens(seq_id);
    const uint32_t n_whole = n_before - n_before % tables_.full().block_size();
    tables_.prefixes().adopt(seq_id,
                             live.content.slice(n_whole, live.content.n_tokens() - n_whole));
    ASSERT_GE(tables_.n_tokens(seq_id), n_before);
  }

  /// Some sequences compute some of their tokens together; now and then the step fails.
  void step() {
    std::vector<SeqExtent> extents;
    for (auto &[seq_id, live] : live_) {
      if (below(3) == 0) continue;
      const uint32_t n_before = tables_.n_tokens(seq_id);
      if (n_before == live.content.n_tokens()) grow(live.content, 1 + below(3));
      const uint32_t n_tokens = 1 + below(live.content.n_tokens() - n_before);
      extents.push_back({seq_id, n_tokens, live.content.slice(n_before, n_tokens)});
    }
    const auto full = tables_.full().tables();
    const bool fails = below(6) == 0;
    {
      auto step = tables_.reserve(extents);
      if (step) {
        write(*step, extents, fails);
        if (!fails) {
          step->commit();
          for (const auto &extent : extents) note_whole_blocks(extent.seq_id);
          return;
        }
      }
      n_refused += step ? 0 : 1;
    }
    ASSERT_EQ(tables_.full().tables(), full) << "a step that is not computed leaves no trace";
  }

  /// A step that fails may have written anything where it was to write.
  void write(const KvTables::Reservation &step, const std::vector<SeqExtent> &extents, bool fails) {
    copy(full_cells_, step.copies_full());
    copy(window_cells_, step.copies_window());
    for (const auto &[seq_id, n_tokens, content] : extents) {
      const auto keys = keys_.of(live_.at(seq_id).tenant, live_.at(seq_id).content);
      const uint32_t n_after = tables_.n_tokens(seq_id);
      for (uint32_t pos = n_after - n_tokens; pos < n_after; ++pos) {
        const SeqPos place{seq_id, static_cast<int32_t>(pos)};
        const uint64_t key = fails ? 0 : keys[pos];
        full_cells_[cell(tables_.full(), place)] = key;
        if (tables_.window() != nullptr) window_cells_[cell(*tables_.window(), place)] = key;
      }
    }
  }

  void copy(std::vector<uint64_t> &cells, const std::vector<BlockCopy> &copies) {
    const auto n = static_cast<std::ptrdiff_t>(tables_.full().block_size());
    for (const auto &[from, to] : copies) {
      std::copy_n(cells.begin() + from * n, n, cells.begin() + to * n);
      ++n_copies;
    }
  }

  static size_t cell(const BlockTables &tables, const SeqPos &place) {
    return static_cast<size_t>(tables.cell(place));
  }

  void check_cells() {
    for (const auto &[seq_id, live] : live_) {
      const auto keys = keys_.of(live.tenant, live.content);
      check_cells(tables_.full(), full_cells_, seq_id, keys);
      if (tables_.window() != nullptr) check_cells(*tables_.window(), window_cells_, seq_id, keys);
    }
  }

  static void check_cells(const BlockTables &tables, const std::vector<uint64_t> &cells,
                          int32_t seq_id, const std::vector<uint64_t> &keys) {
    const BlockTable &table = tables.table(seq_id);
    for (uint32_t pos = table.n_dropped * tables.block_size(); pos < table.n_tokens; ++pos) {
      ASSERT_EQ(cells[cell(tables, {seq_id, static_cast<int32_t>(pos)})], keys[pos])
          << "position " << pos << " of sequence " << seq_id;
    }
  }

  void fork() {
    if (live_.empty() || live_.size() >= 6) return;
    const int32_t from = any();
    const int32_t to = free_id();
    tables_.fork(from, to);
    live_[to] = live_.at(from);
    // What is not computed yet may become something else.
    Live &forked = live_.at(to);
    forked.content = forked.content.slice(0, tables_.n_tokens(to));
    grow(forked.content, 1 + below(6));
  }

  void release(int32_t seq_id) {
    note_computed(seq_id, tables_.n_tokens(seq_id));
    tables_.release(seq_id);
    live_.erase(seq_id);
  }

  void note_whole_blocks(int32_t seq_id) {
    const uint32_t n_tokens = tables_.n_tokens(seq_id);
    note_computed(seq_id, n_tokens - n_tokens % tables_.full().block_size());
  }

  void note_computed(int32_t seq_id, uint32_t n_tokens) {
    const Live &live = live_.at(seq_id);
    for (const uint64_t key : keys_.of(live.tenant, live.content.slice(0, n_tokens)))
      computed_.insert(key);
  }

  [[nodiscard]] uint64_t longest_computed(const std::vector<uint64_t> &keys) const {
    const auto is_computed = [&](uint64_t key) { return computed_.contains(key); };
    return static_cast<uint64_t>(std::ranges::find_if_not(keys, is_computed) - keys.begin());
  }

  std::mt19937_64 random_;
  KvTables tables_;
  std::vector<uint64_t> full_cells_;
  std::vector<uint64_t> window_cells_;
  Keys keys_;
  std::map<int32_t, Live> live_;
  std::set<uint64_t> computed_;
};

TEST(RandomSequences, WithRoomForAllEveryHitIsAsLongAsItCanBe) {
  for (const uint32_t n_swa : {0U, 1U, 4U, 7U}) {
    const KvSizes sizes{.block_size = 4, .n_blocks = 1500, .n_blocks_swa = 1500};
    RandomSequences sequences({sizes, n_swa, 10 + n_swa});
    ASSERT_NO_FATAL_FAILURE(sequences.run(1500));
    EXPECT_EQ(sequences.n_evicted(), 0U);
    EXPECT_GT(sequences.n_exact_hits, 80U);
    EXPECT_GT(sequences.n_hit_tokens, 400U);
    EXPECT_GT(sequences.n_copies, 100U);
  }
}

TEST(RandomSequences, WithHardlyAnyRoomNothingIsLostOrMixedUp) {
  for (uint64_t seed = 0; seed < 24; ++seed) {
    const uint32_t n_swa = std::array{0U, 1U, 4U, 7U}.at(seed % 4);
    const KvSizes sizes{.block_size = seed % 3 == 0 ? 1U : 4U,
                        .n_blocks = 6 + static_cast<uint32_t>(seed),
                        .n_blocks_swa = 5 + static_cast<uint32_t>(seed) / 2};
    RandomSequences sequences({sizes, n_swa, seed});
    ASSERT_NO_FATAL_FAILURE(sequences.run(800)) << "seed " << seed;
    EXPECT_GT(sequences.n_evicted(), 20U) << seed;
    EXPECT_GT(sequences.n_hit_tokens, 20U) << seed;
    EXPECT_GT(sequences.n_refused, 20U) << seed;
  }
}

}  // namespace
}  // namespace patchbay
