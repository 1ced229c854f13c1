#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "patchbay/request.hpp"
#include "server/json_text.h"

namespace patchbay {

/// A request that is being answered, as GET /slots shows it. Never its prompt.
struct ActiveRequest {
  std::string tenant;
  uint64_t number = 0;  ///< counts up
  uint32_t slot = 0;    ///< of its first choice
  Json settings;        ///< as llama-server's params
  int32_t n_predict = -1;
  uint32_t n_choices = 1;
  std::atomic<uint32_t> n_decoded = 0;  ///< of all choices
};

/// All of them, each under a slot. Slots are names only: nothing is kept apart for them, and when
/// more requests come than there are slots, several have the same. Any thread.
class ActiveRequests {
 public:
  explicit ActiveRequests(uint32_t n_slots) : last_used_(std::max(n_slots, 1U)) {}

  /// Listed for as long as somebody holds it; under the slot `wanted`, which there is, or under the
  /// free one that was taken longest ago.
  [[nodiscard]] std::shared_ptr<ActiveRequest> add(const Request &request, Json settings,
                                                   std::optional<uint32_t> wanted) {
    auto active = std::make_shared<ActiveRequest>();
    active->tenant = request.tenant;
    active->settings = std::move(settings);
    active->n_predict = request.n_predict;
    active->n_choices = request.n_choices;
    const std::lock_guard lock(mutex_);
    active->number = ++n_requests_;
    forget_ended();
    active->slot = wanted.value_or(oldest_slot());
    last_used_[active->slot] = active->number;
    requests_.push_back(active);
    return active;
  }

  /// In the order in which they came.
  [[nodiscard]] std::vector<std::shared_ptr<const ActiveRequest>> list() const {
    std::vector<std::shared_ptr<const ActiveRequest>> list;
    const std::lock_guard lock(mutex_);
    for (const auto &one : requests_) {
      if (auto request = one.lock()) list.push_back(std::move(request));
    }
    return list;
  }

 private:
  /// Free ones first.
  [[nodiscard]] uint32_t oldest_slot() const {
    std::vector<bool> is_taken(last_used_.size());
    for (const auto &one : requests_) {
      if (const auto request = one.lock()) is_taken[request->slot] = true;
    }
    uint32_t best = 0;
    for (uint32_t slot = 1; slot < last_used_.size(); ++slot) {
      if (std::pair(is_taken[slot], last_used_[slot]) < std::pair(is_taken[best], last_used_[best]))
        best = slot;
    }
    return best;
  }

  void forget_ended() {
    std::erase_if(requests_, [](const auto &one) { return one.expired(); });
  }

  mutable std::mutex mutex_;
  uint64_t n_requests_ = 0;
  std::vector<uint64_t> last_used_;  // by slot: the number of its last request; 0: none yet
  std::vector<std::weak_ptr<ActiveRequest>> requests_;
};

}  // namespace patchbay
