#include <algorithm>

#include "kv/prefix_cache.h"

namespace patchbay {

HostBytes PrefixCache::copy_of(NodeId node, Part part) const {
  HostBytes copy(is_there(node, part) ? memory_->block_bytes(part) : 0);
  if (block_of(node, part) != BlockTable::k_none) {
    memory_->read_block(part, block_of(node, part), copy.bytes());
  } else if (is_saved(node, part)) {
    std::ranges::copy(host_.bytes(key_of(node, part)), copy.bytes().begin());
  }
  return copy;
}

SavedPrefix PrefixCache::save(std::string_view tenant, const PrefixContent &content) const {
  SavedPrefix saved;
  const auto root = tree_.find_root(tenant);
  if (!root) return saved;
  Path path = find_path(*root, content);
  keep_to_window(path, 0);
  saved.n_tokens = path.n_tokens;
  for (const NodeId node : path.nodes) {
    saved.full.push_back(copy_of(node, full));
    if (tables_[window] != nullptr) saved.window.push_back(copy_of(node, window));
  }
  // Beyond the last token lies what others computed there, or what the memory held before.
  const uint32_t n_in_last = (saved.n_tokens + block_size_ - 1) % block_size_ + 1;
  for (const auto &[part, copies] : {std::pair{full, &saved.full}, {window, &saved.window}}) {
    if (!copies->empty() && !copies->back().bytes().empty())
      memory_->clear_after(part, n_in_last, copies->back().bytes());
  }
  return saved;
}

uint32_t PrefixCache::load(const std::string &tenant, const PrefixContent &content,
                           const PrefixBlocks &blocks) {
  BlockHold held;
  Path path;
  NodeId node = tree_.root(tenant);
  for (const auto &bytes : blocks.full) {
    const PrefixContent next =
        content.slice(path.n_tokens, std::min(block_size_, content.n_tokens() - path.n_tokens));
    const auto loaded = load_full(node, next, bytes, held);
    if (!loaded) break;
    node = *loaded;
    path.nodes.push_back(node);
    path.n_tokens += next.n_tokens();
  }
  // From the end on: no token looks back further than the last windows.
  for (size_t i = std::min(path.nodes.size(), blocks.window.size()); i > 0; --i) {
    const uint32_t n_known = tree_.content(path.nodes[i - 1]).n_tokens();
    const bool has_others = n_known + (i - 1) * block_size_ > path.n_tokens;
    if (has_others || blocks.window[i - 1].empty()) continue;
    if (!load_window(path.nodes[i - 1], blocks.window[i - 1], held)) break;
  }
  return match(tenant, content).n_tokens;
}

/// The child of this content, with a block that is held. None: no block can be had.
std::optional<PrefixCache::NodeId> PrefixCache::load_full(NodeId parent,
                                                          const PrefixContent &content,
                                                          std::span<const std::byte> bytes,
                                                          BlockHold &held) {
  // A longer block of the same beginning serves as well. Not before the one of just this content: a
  // longer one whose bytes are in the host tier would hide it, and it would get a second block.
  const auto same = tree_.find(parent, content);
  const auto [known, n_tokens] = same ? PrefixTree::Beginning{*same, content.n_tokens()}
                                      : tree_.find_beginning(parent, content);
  if (n_tokens == content.n_tokens() && block_of(known, full) != BlockTable::k_none) {
    held.retain(tables_[full]->pool(), block_of(known, full));
    return known;
  }
  const auto block = take_block(full);
  if (!block) return std::nullopt;
  held.add(tables_[full]->pool(), *block);
  memory_->write_block(full, *block, bytes);
  const auto node = find_or_add(parent, content);
  if (!node) return std::nullopt;
  drop_saved(*node, full);
  place(*node, full, *block);
  return node;
}

/// False: no block can be had.
bool PrefixCache::load_window(NodeId node, std::span<const std::byte> bytes, BlockHold &held) {
  BlockPool &pool = tables_[window]->pool();
  if (const int32_t there = block_of(node, window); there != BlockTable::k_none) {
    held.retain(pool, there);
    return true;
  }
  const auto block = take_block(window);
  if (!block) return false;
  held.add(pool, *block);
  memory_->write_block(window, *block, bytes);
  drop_saved(node, window);
  place(node, window, *block);
  return true;
}

}  // namespace patchbay
