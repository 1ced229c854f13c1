#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/executor.h"
#include "patchbay/engine.hpp"

namespace patchbay {

/// Which adapters stay in the executor's memory: those that a request has a lease on, and of the
/// others the last used ones, up to a budget. Engine thread.
class Residency {
 public:
  /// `executor` outlives the object.
  Residency(Executor &executor, size_t budget_bytes)
      : executor_(executor), budget_bytes_(budget_bytes) {}

  /// The adapter's index in the executor, resident until the lease that is added to `leases` is
  /// released. Throws LoadError, and nothing has changed.
  /// `packed`: the adapter as steps read it, null: the executor packs it itself.
  int32_t acquire(const std::shared_ptr<const Adapter> &adapter,
                  std::shared_ptr<const PackedAdapter> packed, std::vector<int32_t> &leases);

  /// Ends leases and empties the list.
  void release(std::vector<int32_t> &leases);

  /// Brings stats up to date, which nobody else has changed since, at the cost of what is new.
  void publish(ResidencyStats &stats) const;

  [[nodiscard]] uint32_t n_adapters() const { return static_cast<uint32_t>(users_.size()); }

 private:
  struct Users {
    uint32_t n_leases = 0;
    uint64_t last_used = 0;
    std::string stats_key;
  };

  void shrink();
  void note_loaded(Users &users, const Adapter &adapter, double load_ms);

  Executor &executor_;
  size_t budget_bytes_;
  std::map<int32_t, Users> users_;  // by index, every resident adapter
  uint64_t n_uses_ = 0;
  ResidencyStats stats_;
};

}  // namespace patchbay
