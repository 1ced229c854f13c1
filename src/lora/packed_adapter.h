#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/huge_memory.h"
#include "kernels/lora_jobs.h"
#include "lora/adapter_changes.h"

namespace patchbay {

/// A change in the form that the fused step reads: A row by row, B turned so that what makes
/// neighbouring outputs lies together. Ranks and number types are the change's own.
struct PackedChange {
  const ProductChange *change = nullptr;  ///< of the packed adapter
  FactorType a_type = FactorType::f32;
  FactorType b_type = FactorType::f32;
  /// A as [n_expert][n_rank][n_in]; of a look-up table where the adapter has it. Null: one-hot, or
  /// of a bias.
  const std::byte *a = nullptr;
  /// B as [n_expert][n_tiles][n_rank][k_lora_tile], zeros where the last tile ends beyond n_out.
  /// Null: one-hot.
  const std::byte *b = nullptr;
  int64_t n_tiles = 0;

  [[nodiscard]] int64_t n_rank() const { return change->n_rank; }
  [[nodiscard]] int64_t n_out() const { return change->n_out(); }
  /// Rows of A of an expert from row `rank` on.
  [[nodiscard]] const std::byte *a_rows(int64_t i_expert, int64_t rank) const;
  /// Tiles of B of an expert from `tile` on.
  [[nodiscard]] const std::byte *b_tiles(int64_t i_expert, int64_t tile) const;
};

/// An adapter packed for the fused step, its factors one after the other in memory, of which a step
/// reads each once. Immutable; making one costs about a copy of the factors, on any thread.
class PackedAdapter {
 public:
  /// Throws LoadError: out_of_memory, or as changes_of().
  explicit PackedAdapter(const Adapter &adapter);

  [[nodiscard]] const AdapterChanges &changes() const { return *changes_; }
  /// In the order of the adapter's changes of products.
  [[nodiscard]] std::span<const PackedChange> products() const { return products_; }
  /// Memory beside the adapter's own.
  [[nodiscard]] size_t size_bytes() const { return memory_.size_bytes(); }

 private:
  std::shared_ptr<const AdapterChanges> changes_;
  HugeMemory memory_;
  std::vector<PackedChange> products_;
};

}  // namespace patchbay
