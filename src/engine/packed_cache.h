#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "lora/packed_adapter.h"

namespace patchbay {

/// Adapters in the form that the engine's steps read, each packed once while anybody uses it:
/// packing copies factors, and is done in the thread of a request's caller, not of the engine. Any
/// thread.
class PackedCache {
 public:
  /// Throws LoadError (out_of_memory).
  [[nodiscard]] std::shared_ptr<const PackedAdapter> get(
      const std::shared_ptr<const Adapter> &adapter);

  /// Spent on packing so far, summed.
  [[nodiscard]] double packed_ms() const;

 private:
  mutable std::mutex mutex_;
  double packed_ms_ = 0;
  std::map<AdapterDigest, std::weak_ptr<const PackedAdapter>> packed_;
};

}  // namespace patchbay
