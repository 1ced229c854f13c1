#include "lora/lora_pool.h"

#include <algorithm>
#include <cassert>

#include "base/error.h"
#include "gguf/gguf_file.h"

namespace patchbay {
namespace {

/// An adapter is checked against its base when it is loaded; nothing keeps a caller from wearing it
/// over another one.
void check_fits(const Adapter &adapter, const BaseInfo &base) {
  const auto refuse = [&](const FactorPair &pair, std::string wanted, std::string found) {
    throw LoadError({.path = adapter.path.empty() ? adapter.name : adapter.path,
                     .item = pair.target,
                     .problem = "was loaded for another base model",
                     .wanted = std::move(wanted),
                     .found = std::move(found)});
  };
  for (const auto &pair : adapter.pairs) {
    const AdaptableUse *use = base.find_use(pair.target);
    if (use == nullptr) refuse(pair, "a weight of " + base.path, "none of that name");
    const bool is_table = pair.kind == UseKind::embed;
    const std::array found{is_table ? pair.b.ne[1] : pair.a.ne[0],
                           is_table ? pair.a.ne[1] : pair.b.ne[1], pair.b.ne[2]};
    if (use->kind != pair.kind || use->ne != found)
      refuse(pair, format_shape(use->ne), format_shape(found));
  }
}

}  // namespace

int32_t LoraPool::add(std::shared_ptr<const Adapter> adapter) {
  if (const int32_t i_adapter = find(adapter->digest); i_adapter >= 0) return i_adapter;
  check_fits(*adapter, base_);
  auto place = std::ranges::find(adapters_, nullptr);
  if (place == adapters_.end()) place = adapters_.insert(place, nullptr);
  *place = std::move(adapter);
  ++version_;
  stacks_.reset();
  return static_cast<int32_t>(place - adapters_.begin());
}

void LoraPool::remove(int32_t i_adapter) {
  assert(is_resident(i_adapter));
  adapters_[static_cast<size_t>(i_adapter)].reset();
  ++version_;
  stacks_.reset();
}

int32_t LoraPool::find(const AdapterDigest &digest) const {
  const auto found = std::ranges::find_if(adapters_, [&](const auto &adapter) {
    return adapter != nullptr && adapter->digest == digest;
  });
  return found == adapters_.end() ? -1 : static_cast<int32_t>(found - adapters_.begin());
}

bool LoraPool::is_resident(int32_t i_adapter) const {
  return i_adapter >= 0 && static_cast<size_t>(i_adapter) < adapters_.size() &&
         adapters_[static_cast<size_t>(i_adapter)] != nullptr;
}

AdapterSet LoraPool::canonical(std::span<const Worn> worn) const {
  assert(std::ranges::all_of(worn, [&](const Worn &one) { return is_resident(one.i_adapter); }));
  AdapterSet sorted(worn.begin(), worn.end());
  std::ranges::stable_sort(sorted, {}, [this](const Worn &one) {
    return adapters_[static_cast<size_t>(one.i_adapter)]->digest;
  });
  AdapterSet set;
  for (const auto &one : sorted) {
    if (!set.empty() && set.back().i_adapter == one.i_adapter) {
      set.back().strength += one.strength;
    } else {
      set.push_back(one);
    }
  }
  std::erase_if(set, [](const Worn &one) { return one.strength == 0; });
  return set;
}

const LoraStacks &LoraPool::stacks() {
  if (stacks_ == nullptr) stacks_ = std::make_unique<const LoraStacks>(adapters_, base_.path);
  return *stacks_;
}

size_t LoraPool::size_bytes() const {
  size_t n_bytes = stacks_ == nullptr ? 0 : stacks_->size_bytes();
  for (const auto &adapter : adapters_) n_bytes += adapter == nullptr ? 0 : adapter->size_bytes;
  return n_bytes;
}

}  // namespace patchbay
