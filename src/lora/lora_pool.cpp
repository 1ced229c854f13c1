#include "lora/lora_pool.h"

#include <algorithm>
#include <cassert>

#include "base/error.h"
#include "gguf/gguf_file.h"
#include "model/tensor_names.h"

namespace patchbay {
namespace {

/// An adapter is checked against its base when it is loaded; nothing keeps a caller from wearing it
/// over another one.
void check_fits(const Adapter &adapter, const BaseInfo &base) {
  const auto refuse = [&](const std::string &item, std::string wanted, std::string found) {
    throw LoadError({.path = adapter.path.empty() ? adapter.name : adapter.path,
                     .item = item,
                     .problem = "was loaded for another base model",
                     .wanted = std::move(wanted),
                     .found = std::move(found)});
  };
  const auto changes = changes_of(adapter);
  for (const auto &change : changes->products) {
    const AdaptableUse *use = base.find_use(change.target);
    if (use == nullptr) refuse(change.target, "a weight of " + base.path, "none of that name");
    if (use->kind != change.kind || use->ne != change.ne)
      refuse(change.target, format_shape(use->ne), format_shape(change.ne));
  }
  for (const auto &change : changes->norms) {
    const AdaptableNorm *norm = base.find_norm(change.tensor);
    const auto n = static_cast<int64_t>(change.delta.size());
    if (norm == nullptr) refuse(change.tensor, "a norm of " + base.path, "none of that name");
    if (norm->n != n) refuse(change.tensor, std::to_string(norm->n), std::to_string(n));
  }
}

/// Orders what is worn by content, adds the strengths of what is there twice, and leaves out what
/// is then not there.
template <class T, class DigestOf>
void sort_and_merge(std::vector<T> &worn, const DigestOf &digest_of) {
  std::ranges::stable_sort(worn, {}, digest_of);
  std::vector<T> merged;
  for (const auto &one : worn) {
    if (!merged.empty() && digest_of(merged.back()) == digest_of(one)) {
      merged.back().strength += one.strength;
    } else {
      merged.push_back(one);
    }
  }
  std::erase_if(merged, [](const T &one) { return one.strength == 0; });
  worn = std::move(merged);
}

Sha256Digest digest_of_merged(std::span<const Wearing> wearing) {
  if (wearing.empty()) return {};
  Sha256 hash;
  for (const auto &[adapter, strength] : wearing) {
    hash.value(adapter->digest);
    hash.value(strength);
  }
  return hash.finish();
}

}  // namespace

LoraPool::LoraPool(const BaseInfo &base, Form form) : base_(base), form_(form) {
  for (size_t i = 0; i < base_.uses.size(); ++i) uses_.emplace(base_.uses[i].name, i);
  for (size_t i = 0; i < base_.norms.size(); ++i) norms_.emplace(base_.norms[i].name, i);
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
  resident.feeds_kv = feeds_kv(*resident.adapter);
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
  if (packed == nullptr) packed = std::make_shared<const PackedAdapter>(*adapter);
  std::vector<std::span<const PackedChange>> by_use(base_.uses.size());
  bool has_dora = false;
  for (const auto &product : packed->products()) {
    auto &of_use = by_use[uses_.at(product.change->target)];
    of_use = {of_use.empty() ? &product : of_use.data(), of_use.size() + 1};
    has_dora = has_dora || product.change->dora != nullptr;
  }
  std::vector<const NormChange *> by_norm;
  if (!packed->changes().norms.empty()) by_norm.resize(base_.norms.size(), nullptr);
  for (const auto &norm : packed->changes().norms) by_norm[norms_.at(norm.tensor)] = &norm;
  return {std::move(adapter), std::move(packed), std::move(by_use), std::move(by_norm), has_dora};
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
  AdapterSet set(worn.begin(), worn.end());
  sort_and_merge(set, [this](const Worn &one) {
    return residents_[static_cast<size_t>(one.i_adapter)].adapter->digest;
  });
  return set;
}

void LoraPool::hold_gains(std::span<const Segment> segments) {
  // Strengths that are not worn now, but may be again in the next step.
  constexpr size_t k_n_spare = 4;
  std::vector<size_t> n_met(residents_.size(), 0);
  for (const auto &segment : segments) {
    for (const auto &[i_adapter, strength] : segment.set) {
      Resident &resident = residents_[static_cast<size_t>(i_adapter)];
      if (!resident.has_dora) continue;
      auto found = std::ranges::find(resident.gains, strength, &HeldGains::strength);
      if (found == resident.gains.end()) {
        resident.gains.push_back(make_gains(*resident.packed, strength));
        found = resident.gains.end() - 1;
      }
      size_t &n = n_met[static_cast<size_t>(i_adapter)];
      const auto place = found - resident.gains.begin();
      if (place < static_cast<ptrdiff_t>(n)) continue;  // met in this step already
      std::rotate(resident.gains.begin() + static_cast<ptrdiff_t>(n), found, found + 1);
      ++n;
    }
  }
  for (size_t i = 0; i < residents_.size(); ++i) {
    auto &gains = residents_[i].gains;
    if (gains.size() > n_met[i] + k_n_spare)
      gains.erase(gains.begin() + static_cast<ptrdiff_t>(n_met[i] + k_n_spare), gains.end());
  }
}

const float *LoraPool::gains(const Worn &worn, const PackedChange &change) const {
  const Resident &resident = residents_[static_cast<size_t>(worn.i_adapter)];
  const auto found = std::ranges::find(resident.gains, worn.strength, &HeldGains::strength);
  assert(found != resident.gains.end());
  const auto i_change = static_cast<size_t>(&change - resident.packed->products().data());
  return found->by_change[i_change].data();
}

LoraPool::HeldGains LoraPool::make_gains(const PackedAdapter &adapter, float strength) {
  HeldGains made{.strength = strength};
  for (const auto &product : adapter.products()) {
    auto &gains = made.by_change.emplace_back();
    const DoraTerms *terms = product.change->dora.get();
    if (terms == nullptr) continue;
    for (size_t i = 0; i < terms->magnitude.size(); ++i) gains.push_back(terms->gain(i, strength));
  }
  return made;
}

size_t LoraPool::find_norm(std::string_view norm) const {
  const auto found = norms_.find(norm);
  return found == norms_.end() ? k_nowhere : found->second;
}

bool LoraPool::feeds_kv(const Adapter &adapter) const {
  const auto use_feeds = [this](std::string_view use) {
    const size_t i_use = find_use(use);
    return i_use != k_nowhere && base_.uses[i_use].feeds_kv;
  };
  const auto pair_feeds = [&](const FactorPair &pair) { return use_feeds(pair.target); };
  const auto replacement_feeds = [&](const Replacement &replacement) {
    const size_t i_norm = find_norm(replacement.tensor);
    if (i_norm != k_nowhere) return base_.norms[i_norm].feeds_kv;
    return use_feeds(replacement.tensor) || use_feeds(weight_of_bias(replacement.tensor));
  };
  return std::ranges::any_of(adapter.pairs, pair_feeds) ||
         std::ranges::any_of(adapter.replacements, replacement_feeds);
}

Sha256Digest LoraPool::kv_digest(std::vector<Wearing> wearing) const {
  std::erase_if(wearing, [this](const Wearing &one) { return !feeds_kv(*one.adapter); });
  sort_and_merge(wearing, [](const Wearing &one) { return one.adapter->digest; });
  return digest_of_merged(wearing);
}

Sha256Digest LoraPool::kv_digest(const AdapterSet &set) const {
  std::vector<Wearing> wearing;
  for (const auto &[i_adapter, strength] : set) {
    const Resident &resident = residents_[static_cast<size_t>(i_adapter)];
    if (resident.feeds_kv) wearing.push_back({resident.adapter.get(), strength});
  }
  return digest_of_merged(wearing);
}

const LoraStacks &LoraPool::stacks() {
  if (stacks_ == nullptr) {
    std::vector<std::shared_ptr<const Adapter>> adapters;
    for (const auto &resident : residents_) adapters.push_back(resident.adapter);
    stacks_ = std::make_unique<const LoraStacks>(adapters, base_.path);
  }
  return *stacks_;
}

size_t LoraPool::size_bytes() const {
  size_t n_bytes = stacks_ == nullptr ? 0 : stacks_->size_bytes();
  for (const auto &resident : residents_) {
    if (resident.adapter != nullptr) n_bytes += resident.adapter->size_bytes;
    if (resident.packed != nullptr) n_bytes += resident.packed->size_bytes();
  }
  return n_bytes;
}

}  // namespace patchbay
