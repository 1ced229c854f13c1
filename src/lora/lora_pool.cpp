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

LoraPool::LoraPool(const BaseInfo &base, Form form) : base_(base), form_(form) {
  for (size_t i = 0; i < base_.uses.size(); ++i) uses_.emplace(base_.uses[i].name, i);
  group_inputs();
}

void LoraPool::group_inputs() {
  std::unordered_map<int32_t, size_t> known;
  for (size_t i = 0; i < base_.uses.size(); ++i) {
    const int32_t i_input = base_.uses[i].i_input;
    const size_t place =
        i_input < 0 ? inputs_.size() : known.emplace(i_input, inputs_.size()).first->second;
    if (place == inputs_.size()) inputs_.emplace_back();
    inputs_[place].push_back(i);
    input_of_.push_back(place);
  }
}

int32_t LoraPool::add(std::shared_ptr<const Adapter> adapter,
                      std::shared_ptr<const PackedAdapter> packed) {
  if (const int32_t i_adapter = find(adapter->digest); i_adapter >= 0) return i_adapter;
  check_fits(*adapter, base_);
  Resident resident = make_resident(std::move(adapter), std::move(packed));
  auto place = std::ranges::find(residents_, nullptr, &Resident::adapter);
  if (place == residents_.end()) place = residents_.emplace(place);
  *place = std::move(resident);
  ++version_;
  stacks_.reset();
  return static_cast<int32_t>(place - residents_.begin());
}

LoraPool::Resident LoraPool::make_resident(std::shared_ptr<const Adapter> adapter,
                                           std::shared_ptr<const PackedAdapter> packed) const {
  if (form_ == Form::stacked) return {.adapter = std::move(adapter)};
  if (packed == nullptr) packed = std::make_shared<const PackedAdapter>(adapter);
  std::vector<const PackedPair *> by_use(base_.uses.size(), nullptr);
  for (const auto &pair : packed->pairs()) by_use[uses_.at(pair.pair->target)] = &pair;
  return {std::move(adapter), std::move(packed), std::move(by_use)};
}

void LoraPool::remove(int32_t i_adapter) {
  assert(is_resident(i_adapter));
  residents_[static_cast<size_t>(i_adapter)] = {};
  ++version_;
  stacks_.reset();
}

int32_t LoraPool::find(const AdapterDigest &digest) const {
  const auto found = std::ranges::find_if(residents_, [&](const Resident &one) {
    return one.adapter != nullptr && one.adapter->digest == digest;
  });
  return found == residents_.end() ? -1 : static_cast<int32_t>(found - residents_.begin());
}

bool LoraPool::is_resident(int32_t i_adapter) const {
  return i_adapter >= 0 && static_cast<size_t>(i_adapter) < residents_.size() &&
         residents_[static_cast<size_t>(i_adapter)].adapter != nullptr;
}

size_t LoraPool::find_use(std::string_view use) const {
  const auto found = uses_.find(use);
  return found == uses_.end() ? k_nowhere : found->second;
}

AdapterSet LoraPool::canonical(std::span<const Worn> worn) const {
  assert(std::ranges::all_of(worn, [&](const Worn &one) { return is_resident(one.i_adapter); }));
  AdapterSet sorted(worn.begin(), worn.end());
  std::ranges::stable_sort(sorted, {}, [this](const Worn &one) {
    return residents_[static_cast<size_t>(one.i_adapter)].adapter->digest;
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
  if (stacks_ == nullptr) {
    std::vector<std::shared_ptr<const Adapter>> adapters;
    for (const auto &resident : residents_) adapters.push_back(resident.adapter);
    stacks_ = std::make_unique<const LoraStacks>(std::move(adapters), base_.path);
  }
  return *stacks_;
}

size_t LoraPool::size_bytes() const {
  size_t n_bytes = stacks_ == nullptr ? 0 : stacks_->size_bytes();
  for (const auto &[adapter, packed, by_use] : residents_) {
    if (adapter != nullptr) n_bytes += adapter->size_bytes;
    if (packed != nullptr) n_bytes += packed->size_bytes();
  }
  return n_bytes;
}

}  // namespace patchbay
