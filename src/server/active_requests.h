#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "patchbay/request.hpp"
#include "server/json_text.h"

namespace patchbay {

/// A request that is being answered, as GET /slots shows it. Never its prompt.
struct ActiveRequest {
  std::string tenant;
  uint64_t number = 0;  ///< counts up
  Json settings;        ///< as llama-server's params
  int32_t n_predict = -1;
  uint32_t n_choices = 1;
  std::atomic<uint32_t> n_decoded = 0;  ///< of all choices
};

/// All of them. Any thread.
class ActiveRequests {
 public:
  /// Listed for as long as somebody holds it.
  [[nodiscard]] std::shared_ptr<ActiveRequest> add(const Request &request, Json settings) {
    auto active = std::make_shared<ActiveRequest>();
    active->tenant = request.tenant;
    active->settings = std::move(settings);
    active->n_predict = request.n_predict;
    active->n_choices = request.n_choices;
    const std::lock_guard lock(mutex_);
    active->number = ++n_requests_;
    forget_ended();
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
  void forget_ended() {
    std::erase_if(requests_, [](const auto &one) { return one.expired(); });
  }

  mutable std::mutex mutex_;
  uint64_t n_requests_ = 0;
  std::vector<std::weak_ptr<ActiveRequest>> requests_;
};

}  // namespace patchbay
