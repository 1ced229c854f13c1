#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "kv/kv_cache.h"
#include "kv/kv_invariants.h"
#include "kv/kv_tables.h"

namespace patchbay {

/// Tables and tensors as an executor has them. In place of keys and values every token gets bytes
/// that follow from all tokens up to it, so that each block can be asked whether it is the right
/// one.
class FilledCache {
 public:
  struct Options {
    KvSizes sizes;
    uint32_t n_swa = 0;  ///< of the second of two layers
    ggml_type type = GGML_TYPE_F32;
    KvLayout layout = KvLayout::by_head;
    size_t host_bytes = 0;
  };

  explicit FilledCache(const Options &options)
      : hparams_(hparams_of(options.n_swa)),
        tables_(options.sizes, options.n_swa),
        cache_(hparams_, options.sizes, options.type, options.layout) {
    tables_.prefixes().use_host_tier(cache_, options.host_bytes);
  }

  [[nodiscard]] KvTables &tables() { return tables_; }
  [[nodiscard]] KvCache &cache() { return cache_; }
  [[nodiscard]] const PrefixCache::Counters &counters() const {
    return tables_.prefixes().counters();
  }

  /// A new sequence begins with what is there of these tokens. Returns how many those are.
  uint32_t begin(int32_t seq_id, const std::string &tenant, const std::vector<int32_t> &tokens) {
    tables_.prefixes().begin(seq_id, tenant);
    tables_.prefixes().adopt(seq_id, content_of(tokens));
    const uint32_t n_tokens = tables_.n_tokens(seq_id);
    tokens_[seq_id].assign(tokens.begin(), tokens.begin() + n_tokens);
    check();
    return n_tokens;
  }

  /// Computes more tokens of a sequence; false: there is no memory.
  bool compute(int32_t seq_id, const std::vector<int32_t> &more) {
    auto &tokens = tokens_[seq_id];
    const auto n_more = static_cast<uint32_t>(more.size());
    auto reservation = tables_.reserve(std::vector<SeqExtent>{{seq_id, n_more, content_of(more)}});
    if (!reservation) return false;
    cache_.copy(reservation->copies_full(), reservation->copies_window());
    const auto n_before = static_cast<int32_t>(tokens.size());
    tokens.insert(tokens.end(), more.begin(), more.end());
    for (int32_t pos = n_before; pos < static_cast<int32_t>(tokens.size()); ++pos)
      for_each_row(seq_id, pos, [](std::byte *row, const auto &wanted) {
        std::memcpy(row, wanted.data(), wanted.size());
      });
    reservation->commit();
    check();
    return true;
  }

  void fork(int32_t from, int32_t to) {
    tables_.fork(from, to);
    tokens_[to] = tokens_[from];
    check();
  }

  void release(int32_t seq_id) {
    tables_.release(seq_id);
    tokens_.erase(seq_id);
    check();
  }

  [[nodiscard]] const std::map<int32_t, std::vector<int32_t>> &sequences() const { return tokens_; }

  /// Every token that a sequence may look at is what it was computed to be.
  void check() {
    ASSERT_EQ(check_invariants(snapshot_of(tables_)), "");
    for (const auto &[seq_id, tokens] : tokens_) {
      ASSERT_EQ(tables_.n_tokens(seq_id), tokens.size());
      size_t n_wrong = 0;
      for (int32_t pos = 0; pos < static_cast<int32_t>(tokens.size()); ++pos) {
        for_each_row(seq_id, pos, [&](const std::byte *row, const auto &wanted) {
          n_wrong += std::memcmp(row, wanted.data(), wanted.size()) != 0 ? 1 : 0;
        });
      }
      ASSERT_EQ(n_wrong, 0U) << "rows of sequence " << seq_id;
    }
  }

  [[nodiscard]] static PrefixContent content_of(const std::vector<int32_t> &tokens) {
    return PrefixContent(ContentView{.tokens = tokens, .worn = {}});
  }

 private:
  static HParams hparams_of(uint32_t n_swa) {
    constexpr uint32_t k_n_layer = 2;
    HParams hparams;
    hparams.n_layer = k_n_layer;
    hparams.n_head_kv = 2;
    hparams.n_embd_head = 32;
    hparams.n_swa = n_swa;
    for (uint32_t il = 0; il < k_n_layer; ++il) hparams.swa.push_back(n_swa > 0 && il % 2 == 1);
    return hparams;
  }

  /// The rows of a token that its sequence still holds, and what they have to be.
  template <class Visit>
  void for_each_row(int32_t seq_id, int32_t pos, const Visit &visit) {
    uint64_t prefix = 1;
    for (int32_t i = 0; i <= pos; ++i)
      prefix = next(prefix + static_cast<uint64_t>(tokens_.at(seq_id)[static_cast<size_t>(i)]));
    for (uint32_t il = 0; il < hparams_.n_layer; ++il) {
      const BlockTables &tables = hparams_.is_swa(il) ? *tables_.window() : tables_.full();
      const auto block = static_cast<uint32_t>(pos) / tables.block_size();
      if (tables.table(seq_id).blocks[block] == BlockTable::k_none) continue;
      uint64_t number = prefix + il;
      const std::vector<SeqPos> place{{seq_id, pos}};
      for (const int64_t row : rows_written(cache_.layout(), hparams_.n_head_kv, tables, place)) {
        for (ggml_tensor *tensor : {cache_.k(il), cache_.v(il)}) {
          std::vector<std::byte> wanted(tensor->nb[1]);
          for (auto &byte : wanted) byte = static_cast<std::byte>((number = next(number)) >> 56U);
          visit(static_cast<std::byte *>(tensor->data) + static_cast<size_t>(row) * tensor->nb[1],
                wanted);
        }
      }
    }
  }

  /// Knuth's MMIX generator.
  static uint64_t next(uint64_t number) {
    return number * 6364136223846793005U + 1442695040888963407U;
  }

  HParams hparams_;
  KvTables tables_;
  KvCache cache_;
  std::map<int32_t, std::vector<int32_t>> tokens_;
};

}  // namespace patchbay
