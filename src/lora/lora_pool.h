#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "lora/adapter.h"
#include "lora/lora_stacks.h"
#include "lora/routing.h"

namespace patchbay {

/// The resident adapters of one engine. They come and go between steps; each has an index that
/// stays its own until it is removed. Engine thread.
class LoraPool {
 public:
  /// `base` outlives the pool.
  explicit LoraPool(const BaseInfo &base) : base_(base) {}

  /// Makes an adapter resident and returns its index; content that is there already keeps the one
  /// it has. Throws LoadError, and nothing has changed: the adapter was loaded for another base.
  int32_t add(std::shared_ptr<const Adapter> adapter);

  /// Frees an index. REQUIRES: the adapter is resident, and no step to come wears it.
  void remove(int32_t i_adapter);

  /// The index of the adapter with this content, or -1.
  [[nodiscard]] int32_t find(const AdapterDigest &digest) const;
  [[nodiscard]] bool is_resident(int32_t i_adapter) const;

  /// The canonical form of `worn`: ordered by the adapters' digests, so that sums over a set depend
  /// neither on the order of loading nor on that of the request; strengths of 0 left out, the
  /// strengths of an adapter named twice added. REQUIRES: all are resident.
  [[nodiscard]] AdapterSet canonical(std::span<const Worn> worn) const;

  /// What the portable step reads, made anew when the resident adapters have changed. Valid until
  /// they change again. Throws LoadError as LoraStacks does.
  [[nodiscard]] const LoraStacks &stacks();

  /// Counts the changes of the resident set.
  [[nodiscard]] uint64_t version() const { return version_; }

  /// Memory that the resident adapters take: their factors, and the stacks if there are any.
  [[nodiscard]] size_t size_bytes() const;

 private:
  const BaseInfo &base_;
  std::vector<std::shared_ptr<const Adapter>> adapters_;  // by index; null: free
  uint64_t version_ = 0;
  std::unique_ptr<const LoraStacks> stacks_;  // null: none made since the last change
};

}  // namespace patchbay
