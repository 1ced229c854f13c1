#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "kv/block_tables.h"
#include "kv/prefix_tree.h"

namespace patchbay {

/// Computed blocks that sequences share, and that stay when the last sequence has gone, until
/// somebody needs the memory: the longest idle goes first. A sequence is known by the contents of
/// its tokens, so a hit is never wrong. Sliding-window layers have blocks of their own: a node may
/// have lost its block there, and then serves only where no token looks that far back. Engine
/// thread.
class PrefixCache {
 public:
  /// Both tables outlive the object; `window` is null when the model has no such layers.
  PrefixCache(BlockTables &full, BlockTables *window, uint32_t n_swa);
  PrefixCache(const PrefixCache &) = delete;
  PrefixCache &operator=(const PrefixCache &) = delete;

  /// Whose a new sequence is. Those that were never begun are nobody's: nothing of them is kept.
  void begin(int32_t seq_id, const std::string &tenant);

  /// How much of a new sequence of this content is there.
  struct Match {
    uint32_t n_tokens = 0;
    uint32_t n_tokens_in_use = 0;  ///< of these, in whole blocks, held by sequences at the moment
  };
  [[nodiscard]] Match match(std::string_view tenant, const PrefixContent &content) const;

  /// The sequence goes on with what is there of `content`, the tokens that follow on its last whole
  /// block. Nothing happens when that is no more than it holds.
  void adopt(int32_t seq_id, const PrefixContent &content);

  /// Tokens were computed and added to the sequence's tables: their whole blocks are kept from now
  /// on, and are shared with who has computed the same.
  void append(int32_t seq_id, const PrefixContent &content);

  void fork(int32_t from, int32_t to);
  /// A sequence ends; its last block is kept as well. Before its tables are released.
  void release(int32_t seq_id);

  /// Gives the longest idle block of one of the two tables back to its pool; false when there is
  /// none.
  bool evict(const BlockTables &tables);

  /// Forgets a sequence's last block, in one of the two tables, when nobody else holds it: it can
  /// then be written to, where a copy would need memory that there is not. False: others hold it.
  bool forget_last(const BlockTables &tables, int32_t seq_id);

  struct Counters {
    uint64_t n_blocks_evicted = 0;
  };
  [[nodiscard]] const Counters &counters() const { return counters_; }
  /// Blocks whose contents are known.
  [[nodiscard]] size_t n_nodes() const { return tree_.n_nodes(); }
  [[nodiscard]] std::string check_invariants() const;

 private:
  using NodeId = PrefixTree::NodeId;
  /// The two kinds of layers.
  enum Part : uint8_t { full, window, n_parts };
  /// Of one node.
  using Blocks = std::array<int32_t, n_parts>;

  /// How far a sequence is known.
  struct Chain {
    NodeId node = PrefixTree::k_no_node;  // of its last whole block, or a root
    uint32_t n_blocks = 0;                // whole ones
    PrefixContent tail;                   // behind them
  };
  struct Path {
    std::vector<NodeId> nodes;  // the last one may be used in part
    uint32_t n_tokens = 0;
  };

  [[nodiscard]] Path find_path(NodeId from, const PrefixContent &content) const;
  void keep_to_window(Path &path, uint32_t n_before) const;
  [[nodiscard]] uint32_t first_in_window(uint32_t n_tokens) const;
  [[nodiscard]] Part part_of(const BlockTables &tables) const {
    return &tables == tables_[full] ? full : window;
  }
  [[nodiscard]] int32_t block_of(NodeId node, Part part) const { return blocks_.at(node)[part]; }

  [[nodiscard]] std::optional<NodeId> find_or_add(NodeId parent, PrefixContent content);
  void remove_beginnings(NodeId parent, const PrefixContent &content);
  void attach(NodeId node, int32_t seq_id, uint32_t i_block);
  void attach(NodeId node, Part part, int32_t seq_id, uint32_t i_block);
  void detach(NodeId node, Part part);
  void forget(Part part, int32_t block);
  void remove(NodeId node);

  std::array<BlockTables *, n_parts> tables_;
  uint32_t n_swa_;
  uint32_t block_size_;
  PrefixTree tree_;
  std::unordered_map<NodeId, Blocks> blocks_;
  std::array<std::vector<NodeId>, n_parts> node_of_;  // by block
  std::map<int32_t, Chain> chains_;
  Counters counters_;
};

}  // namespace patchbay
