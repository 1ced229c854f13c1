#include "kv/prefix_tree.h"

#include <algorithm>
#include <cassert>
#include <random>

namespace patchbay {
namespace {

/// Tenants without prefixes are forgotten when there are more than this many.
constexpr size_t k_most_roots = 4096;

/// Nobody outside can choose prompts whose hashes meet.
uint64_t random_salt() {
  std::random_device device;
  return uint64_t{device()} << 32U | device();
}

}  // namespace

PrefixTree::NodeId PrefixTree::root(const std::string &tenant) {
  if (const auto found = find_root(tenant)) return *found;
  if (roots_.size() >= k_most_roots) remove_unused_roots();
  const NodeId id = ++last_id_;
  nodes_[id].hash = random_salt();
  roots_.emplace(tenant, id);
  return id;
}

std::optional<PrefixTree::NodeId> PrefixTree::find_root(std::string_view tenant) const {
  const auto found = roots_.find(tenant);
  if (found == roots_.end()) return std::nullopt;
  return found->second;
}

void PrefixTree::remove_unused_roots() {
  std::erase_if(roots_, [this](const auto &root) {
    return nodes_.at(root.second).children.empty() && nodes_.erase(root.second) > 0;
  });
}

uint64_t PrefixTree::hash_of(NodeId parent, const PrefixContent &content) const {
  return content.hash(nodes_.at(parent).hash);
}

std::optional<PrefixTree::NodeId> PrefixTree::find(NodeId parent,
                                                   const PrefixContent &content) const {
  if (!contains(parent)) return std::nullopt;
  const auto [first, last] = by_hash_.equal_range(hash_of(parent, content));
  for (auto candidate = first; candidate != last; ++candidate) {
    const Node &node = nodes_.at(candidate->second);
    if (node.parent == parent && node.content == content) return candidate->second;
  }
  return std::nullopt;
}

PrefixTree::Beginning PrefixTree::find_beginning(NodeId parent,
                                                 const PrefixContent &content) const {
  Beginning best;
  if (!contains(parent)) return best;
  for (const NodeId child : children(parent)) {
    const uint32_t n_tokens = n_common(nodes_.at(child).content, content);
    if (n_tokens > best.n_tokens) best = {child, n_tokens};
  }
  return best;
}

std::optional<PrefixTree::NodeId> PrefixTree::add(NodeId parent, PrefixContent content) {
  if (!contains(parent)) return std::nullopt;
  assert(!find(parent, content));
  const NodeId id = ++last_id_;
  const uint64_t hash = hash_of(parent, content);
  by_hash_.emplace(hash, id);
  nodes_[parent].children.push_back(id);
  nodes_[id] = {.parent = parent, .content = std::move(content), .hash = hash};
  return id;
}

std::vector<PrefixTree::NodeId> PrefixTree::remove(NodeId node) {
  std::vector<NodeId> removed;
  const auto found = nodes_.find(node);
  if (found == nodes_.end()) return removed;
  std::erase(nodes_.at(found->second.parent).children, node);
  removed.push_back(node);
  for (size_t i = 0; i < removed.size(); ++i) {
    const Node &gone = nodes_.at(removed[i]);
    removed.insert(removed.end(), gone.children.begin(), gone.children.end());
    const auto [first, last] = by_hash_.equal_range(gone.hash);
    by_hash_.erase(
        std::find_if(first, last, [&](const auto &entry) { return entry.second == removed[i]; }));
  }
  for (const NodeId gone : removed) nodes_.erase(gone);
  return removed;
}

}  // namespace patchbay
