#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "kv/prefix_content.h"

namespace patchbay {

/// The contents of blocks that were computed, as a tree: a node's block follows on its parent's, so
/// the way from the root to a node says all that the node's keys and values depend on. Each tenant
/// has a root of its own, and never sees another's nodes. Where the blocks lie is others' business.
/// Pure bookkeeping; engine thread.
class PrefixTree {
 public:
  /// Never used twice in a process: what refers to a node that is gone refers to nothing.
  using NodeId = uint64_t;
  static constexpr NodeId k_no_node = 0;

  explicit PrefixTree(uint32_t block_size) : block_size_(block_size) {}

  /// Where a tenant's prefixes begin.
  [[nodiscard]] NodeId root(const std::string &tenant);
  /// The same, none when there are none.
  [[nodiscard]] std::optional<NodeId> find_root(std::string_view tenant) const;

  /// The child of exactly this content.
  [[nodiscard]] std::optional<NodeId> find(NodeId parent, const PrefixContent &content) const;

  /// The child whose content begins with most of `content`; n_tokens 0: none does.
  struct Beginning {
    NodeId node = k_no_node;
    uint32_t n_tokens = 0;
  };
  [[nodiscard]] Beginning find_beginning(NodeId parent, const PrefixContent &content) const;

  /// Adds a child that is not there; the parent is a root or a full block. None: the parent is
  /// gone.
  [[nodiscard]] std::optional<NodeId> add(NodeId parent, PrefixContent content);

  /// Removes a node and all that follow on it; returns them. Nothing happens when it is gone.
  std::vector<NodeId> remove(NodeId node);

  [[nodiscard]] const PrefixContent &content(NodeId node) const { return nodes_.at(node).content; }
  [[nodiscard]] const std::vector<NodeId> &children(NodeId node) const {
    return nodes_.at(node).children;
  }
  [[nodiscard]] bool contains(NodeId node) const { return nodes_.contains(node); }
  [[nodiscard]] bool is_full(NodeId node) const {
    return nodes_.at(node).content.n_tokens() == block_size_;
  }
  /// Roots not counted.
  [[nodiscard]] size_t n_nodes() const { return nodes_.size() - roots_.size(); }

 private:
  struct Node {
    NodeId parent = k_no_node;
    PrefixContent content;
    uint64_t hash = 0;  // of parent and content; of a root, the tenant's random salt
    std::vector<NodeId> children;
  };

  [[nodiscard]] uint64_t hash_of(NodeId parent, const PrefixContent &content) const;
  void remove_unused_roots();

  uint32_t block_size_;
  NodeId last_id_ = k_no_node;
  std::unordered_map<NodeId, Node> nodes_;
  std::unordered_multimap<uint64_t, NodeId> by_hash_;  // candidates only: hits are compared
  std::map<std::string, NodeId, std::less<>> roots_;
};

}  // namespace patchbay
