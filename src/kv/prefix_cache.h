#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "kv/block_hold.h"
#include "kv/block_memory.h"
#include "kv/block_tables.h"
#include "kv/host_tier.h"
#include "kv/prefix_blocks.h"
#include "kv/prefix_tree.h"

namespace patchbay {

/// Computed blocks that sequences share, and that stay when the last sequence has gone, until
/// somebody needs the memory: the longest idle goes first. A sequence is known by the contents of
/// its tokens, so a hit is never wrong. Sliding-window layers have blocks of their own: a node may
/// have lost its block there, and then serves only where no token looks that far back. With a host
/// tier the bytes of a block that goes move to ordinary memory, and come back when they are hit.
/// Engine thread.
class PrefixCache {
 public:
  /// Both tables outlive the object; `window` is null when the model has no such layers.
  PrefixCache(BlockTables &full, BlockTables *window, uint32_t n_swa);
  PrefixCache(const PrefixCache &) = delete;
  PrefixCache &operator=(const PrefixCache &) = delete;

  /// From now on evicted blocks move to ordinary memory, of `budget_bytes` at most, 0: none; there
  /// the longest unused goes first. `memory` outlives the object.
  void use_host_tier(BlockMemory &memory, size_t budget_bytes);

  /// Copies what is there of a tenant's content; the blocks' memory is that of use_host_tier().
  /// Throws std::bad_alloc, and nothing has changed.
  [[nodiscard]] SavedPrefix save(std::string_view tenant, const PrefixContent &content) const;

  /// The opposite: keeps the blocks of a tenant's content, from its beginning as far as blocks can
  /// be had that no sequence holds. Returns how many tokens of it are there now.
  uint32_t load(const std::string &tenant, const PrefixContent &content,
                const PrefixBlocks &blocks);

  /// Whose a new sequence is. Those that were never begun are nobody's: nothing of them is kept.
  void begin(int32_t seq_id, const std::string &tenant);

  /// How much of a new sequence of this content is there, in the host tier as well.
  struct Match {
    uint32_t n_tokens = 0;
    uint32_t n_tokens_in_use = 0;  ///< of these, in whole blocks, held by sequences at the moment
  };
  [[nodiscard]] Match match(std::string_view tenant, const PrefixContent &content) const;

  /// The sequence goes on with what is there of `content`, the tokens that follow on its last whole
  /// block. What has to come back from the host tier does as far as blocks can be had. Nothing
  /// happens when all that is no more than it holds.
  void adopt(int32_t seq_id, const PrefixContent &content);

  /// Tokens were computed and added to the sequence's tables: their whole blocks are kept from now
  /// on, and are shared with who has computed the same.
  void append(int32_t seq_id, const PrefixContent &content);

  void fork(int32_t from, int32_t to);
  /// A sequence ends; its last block is kept as well. Before its tables are released.
  void release(int32_t seq_id);

  /// Gives the longest idle block of one of the two tables back to its pool, once its bytes are in
  /// the host tier if they can be; false when there is none.
  bool evict(const BlockTables &tables);

  /// The last block of a sequence becomes its own, so that it can write there without a copy; false
  /// when it is not kept, or others hold it too.
  bool give_up_last(const BlockTables &tables, int32_t seq_id);

  struct Counters {
    uint64_t n_tokens_hit = 0;  ///< that sequences adopted
    uint64_t n_blocks_evicted = 0;
    uint64_t n_blocks_saved = 0;     ///< of the evicted ones, to the host tier
    uint64_t n_blocks_restored = 0;  ///< of the saved ones
    uint64_t n_blocks_dropped = 0;   ///< saved ones that went without coming back
  };
  [[nodiscard]] const Counters &counters() const { return counters_; }
  [[nodiscard]] size_t host_bytes() const { return host_.size_bytes(); }
  /// Blocks whose contents are known.
  [[nodiscard]] size_t n_nodes() const { return tree_.n_nodes(); }
  [[nodiscard]] std::string check_invariants() const;

 private:
  using NodeId = PrefixTree::NodeId;
  using Part = BlockMemory::Part;
  using enum BlockMemory::Part;
  /// Of one node; k_none where it has none, or its bytes are in the host tier.
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
  [[nodiscard]] bool has_window(const Path &path, uint32_t n_before) const;
  void keep_to_window(Path &path, uint32_t n_before) const;
  void drop_last(Path &path) const;
  [[nodiscard]] std::span<const NodeId> needed(const Path &path, uint32_t n_before,
                                               Part part) const;
  [[nodiscard]] uint32_t first_in_window(uint32_t n_tokens) const;
  [[nodiscard]] int32_t block_of(NodeId node, Part part) const { return blocks_.at(node)[part]; }

  [[nodiscard]] std::optional<NodeId> find_or_add(NodeId parent, PrefixContent content);
  void remove_beginnings(NodeId parent, const PrefixContent &content);
  void attach(NodeId node, int32_t seq_id, uint32_t i_block);
  void attach(NodeId node, Part part, int32_t seq_id, uint32_t i_block);
  void place(NodeId node, Part part, int32_t block);
  [[nodiscard]] std::optional<int32_t> take_block(Part part);
  void detach(NodeId node, Part part);
  void remove(NodeId node);
  void give_up(const BlockTables &tables, int32_t block);

  // Of the host tier.
  static HostTier::Key key_of(NodeId node, Part part) { return node * n_parts + part; }
  [[nodiscard]] bool is_saved(NodeId node, Part part) const {
    return host_.contains(key_of(node, part));
  }
  [[nodiscard]] bool is_there(NodeId node, Part part) const {
    return block_of(node, part) != BlockTable::k_none || is_saved(node, part);
  }
  [[nodiscard]] bool save(NodeId node, Part part);
  [[nodiscard]] bool make_host_room(size_t n_bytes);
  void drop_saved(NodeId node, Part part);
  void keep_to_room(Path &path, uint32_t n_before) const;
  [[nodiscard]] bool has_room(const Path &path, uint32_t n_before, Part part) const;
  [[nodiscard]] BlockHold bring_back(const Path &path, uint32_t n_before);
  void restore(NodeId node, Part part, BlockHold &held);
  [[nodiscard]] std::string check_host_tier() const;

  // Of saving and loading.
  [[nodiscard]] HostBytes copy_of(NodeId node, Part part) const;
  [[nodiscard]] bool load_window(NodeId node, std::span<const std::byte> bytes, BlockHold &held);
  [[nodiscard]] std::optional<NodeId> load_full(NodeId parent, const PrefixContent &content,
                                                std::span<const std::byte> bytes, BlockHold &held);

  std::array<BlockTables *, n_parts> tables_;
  uint32_t n_swa_;
  uint32_t block_size_;
  PrefixTree tree_;
  std::unordered_map<NodeId, Blocks> blocks_;
  std::array<std::vector<NodeId>, n_parts> node_of_;  // by block
  std::map<int32_t, Chain> chains_;
  BlockMemory *memory_ = nullptr;  // null: no block is ever moved
  HostTier host_{0};               // by key_of()
  Counters counters_;
};

}  // namespace patchbay
