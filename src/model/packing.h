#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "kernels/product_pack.h"

namespace patchbay {

/// A weight on its way from the file into tiles.
struct PackTask {
  PackJob job;  ///< of the first expert; the others' rows follow
  int64_t n_expert = 1;
  size_t i_shard = 0;        ///< of the file that the rows lie in
  uint8_t *tiles = nullptr;  ///< of the first expert; the others' follow
};

/// What is told while weights are packed.
struct PackListener {
  /// These rows of a shard are done with. Any thread.
  std::function<void(size_t i_shard, std::span<const std::byte> rows)> release;
  /// So many more bytes of rows are done. The calling thread, now and then.
  std::function<void(size_t n_bytes)> done;
};

/// Packs all tasks with as many threads as the calling one has CPUs that it may run on.
void pack_weights(std::span<const PackTask> tasks, const PackListener &listener);

}  // namespace patchbay
