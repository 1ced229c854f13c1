#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lora/adapter.h"
#include "lora/lora_stacks.h"
#include "lora/packed_adapter.h"
#include "lora/routing.h"

namespace patchbay {

/// One adapter as a token is to wear it, resident or not.
struct Wearing {
  const Adapter *adapter = nullptr;
  float strength = 1;
};

/// The resident adapters of one engine. They come and go between steps; each has an index that
/// stays its own until it is removed. Engine thread.
class LoraPool {
 public:
  static constexpr size_t k_nowhere = SIZE_MAX;

  /// What the pool keeps of its adapters, by what the engine's steps read.
  enum class Form { stacked, packed };

  /// `base` outlives the pool.
  LoraPool(const BaseInfo &base, Form form);

  /// Makes an adapter resident and returns its index; content that is there already keeps the one
  /// it has. `packed`, of this adapter and for a pool of that form, spares the engine thread the
  /// packing; without it the pool packs. Throws LoadError, and nothing has changed: the adapter was
  /// loaded for another base, or memory cannot be had (out_of_memory).
  int32_t add(std::shared_ptr<const Adapter> adapter,
              std::shared_ptr<const PackedAdapter> packed = nullptr);

  /// Frees an index. REQUIRES: the adapter is resident, and no step to come wears it.
  void remove(int32_t i_adapter);

  /// The index of the adapter with this content, or -1.
  [[nodiscard]] int32_t find(const AdapterDigest &digest) const;
  [[nodiscard]] bool is_resident(int32_t i_adapter) const;

  /// The canonical form of `worn`: ordered by the adapters' digests, so that sums over a set depend
  /// neither on the order of loading nor on that of the request; strengths of 0 left out, the
  /// strengths of an adapter named twice added. REQUIRES: all are resident.
  [[nodiscard]] AdapterSet canonical(std::span<const Worn> worn) const;

  /// What keys and values depend on when tokens wear these, in any order: SHA-256 over content and
  /// strength of the adapters that reach any. All zeros: they are the base's.
  [[nodiscard]] Sha256Digest kv_digest(std::vector<Wearing> wearing) const;
  /// The same of residents.
  [[nodiscard]] Sha256Digest kv_digest(const AdapterSet &set) const;

  /// The place of a use of the base, or k_nowhere.
  [[nodiscard]] size_t find_use(std::string_view use) const;
  /// Of a packed pool: what the resident adapter does to that use. Valid until it is removed.
  [[nodiscard]] std::span<const PackedChange> changes(int32_t i_adapter, size_t i_use) const {
    return residents_[static_cast<size_t>(i_adapter)].by_use[i_use];
  }
  /// The place of a norm of the base, or k_nowhere.
  [[nodiscard]] size_t find_norm(std::string_view norm) const;
  [[nodiscard]] size_t n_norms() const { return base_.norms.size(); }
  /// Of a packed pool: what the resident adapter adds to the weight of that norm, or nullptr. Valid
  /// until it is removed.
  [[nodiscard]] const NormChange *norm_change(int32_t i_adapter, size_t i_norm) const {
    const auto &by_norm = residents_[static_cast<size_t>(i_adapter)].by_norm;
    return by_norm.empty() ? nullptr : by_norm[i_norm];
  }
  /// Of a packed pool: works out the gains of DoRA for what these segments wear, where they are not
  /// held already; those of other strengths may go. Costs a square root per row and new strength.
  void hold_gains(std::span<const Segment> segments);
  /// The gains that an adapter's change with DoRA has at a strength, as DoraTerms orders them.
  /// REQUIRES: the last hold_gains() met them.
  [[nodiscard]] const float *gains(const Worn &worn, const PackedChange &change) const;
  /// Of a packed pool: whether rows of some weight get other lengths.
  [[nodiscard]] bool has_dora(int32_t i_adapter) const {
    return residents_[static_cast<size_t>(i_adapter)].has_dora;
  }
  /// The base's uses by the input that they read, see AdaptableUse::i_input.
  [[nodiscard]] const std::vector<std::vector<size_t>> &inputs() const { return inputs_; }
  [[nodiscard]] size_t input_of(size_t i_use) const { return input_of_[i_use]; }

  /// What the portable step reads, made anew when the resident adapters have changed. Valid until
  /// they change again. Throws LoadError as LoraStacks does.
  [[nodiscard]] const LoraStacks &stacks();

  /// Counts the changes of the resident set.
  [[nodiscard]] uint64_t version() const { return version_; }

  /// Memory that the resident adapters take: their factors, and the copies that the form needs; not
  /// what hold_gains() keeps, which is a number or a few per row of what has DoRA.
  [[nodiscard]] size_t size_bytes() const;

 private:
  /// The gains of all changes of an adapter at one strength; of those without DoRA none.
  struct HeldGains {
    float strength = 1;
    std::vector<std::vector<float>> by_change;
  };
  struct Resident {
    std::shared_ptr<const Adapter> adapter;  // null: the index is free
    std::shared_ptr<const PackedAdapter> packed;
    std::vector<std::span<const PackedChange>> by_use;
    std::vector<const NormChange *> by_norm;  // empty: it changes none
    bool has_dora = false;
    bool feeds_kv = false;
    std::vector<HeldGains> gains;  // the last used first
  };

  void group_inputs();
  [[nodiscard]] static HeldGains make_gains(const PackedAdapter &adapter, float strength);
  [[nodiscard]] bool feeds_kv(const Adapter &adapter) const;
  [[nodiscard]] Resident make_resident(std::shared_ptr<const Adapter> adapter,
                                       std::shared_ptr<const PackedAdapter> packed) const;

  const BaseInfo &base_;
  Form form_;
  std::unordered_map<std::string_view, size_t> uses_;   // keys: names inside base_
  std::unordered_map<std::string_view, size_t> norms_;  // the same
  std::vector<std::vector<size_t>> inputs_;
  std::vector<size_t> input_of_;  // by use
  std::vector<Resident> residents_;
  uint64_t version_ = 0;
  std::unique_ptr<const LoraStacks> stacks_;  // null: none made since the last change
};

}  // namespace patchbay
