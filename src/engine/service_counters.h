#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "patchbay/engine.hpp"

namespace patchbay {

/// By which the counters know an adapter, see EngineStats::adapters.
[[nodiscard]] std::string stats_key_of(const Adapter &adapter);

/// Where what is done for a request is counted: at its tenant and at each adapter that it wears.
struct ServiceTicket {
  template <class Stats>
  struct Entry {
    Stats stats{};
    const std::string *name = nullptr;
    uint32_t n_open = 0;              ///< requests that wait or run
    uint64_t last_used = 0;           ///< the larger, the later a request of it has ended
    bool is_changed = false;          ///< since it was published
    std::vector<Entry *> *changed{};  ///< where all those are noted

    void note_change() {
      if (!is_changed) changed->push_back(this);
      is_changed = true;
    }
  };

  Entry<TenantStats> *tenant = nullptr;
  std::vector<Entry<AdapterStats> *> adapters{};

  /// Calls `change` with the ServiceStats of each.
  template <class Change>
  void count(const Change &change) const {
    const auto apply = [&](auto &entry) {
      change(static_cast<ServiceStats &>(entry.stats));
      entry.note_change();
    };
    if (tenant != nullptr) apply(*tenant);
    for (auto *adapter : adapters) apply(*adapter);
  }
};

/// The counters of tenants and adapters, kept up to date as things happen, so that publishing them
/// costs what has changed. Memory: whenever a name is new, of the names of its kind without open
/// requests the last active `n_most_idle` are kept. Engine thread.
class ServiceCounters {
 public:
  explicit ServiceCounters(size_t n_most_idle = 1024) : n_most_idle_(n_most_idle) {}

  // Tickets refer to the entries.
  ServiceCounters(const ServiceCounters &) = delete;
  ServiceCounters &operator=(const ServiceCounters &) = delete;

  /// Counters for a request that comes in. Ended by close().
  [[nodiscard]] ServiceTicket open(const Request &request);
  /// Empties the ticket.
  void close(ServiceTicket &ticket);

  /// Brings the maps of `stats` up to date, which this was called with before: what has changed.
  void publish(EngineStats &stats);
  /// All of it.
  void copy_to(EngineStats &stats) const;

 private:
  template <class Stats>
  struct Kind {
    using Entry = ServiceTicket::Entry<Stats>;
    std::map<std::string, Entry> entries;
    std::vector<Entry *> changed;      // since they were published
    std::vector<std::string> dropped;  // likewise

    [[nodiscard]] Entry &open(const std::string &name, size_t n_most_idle);
    void make_room(size_t n_most_idle);
    void publish(std::map<std::string, Stats> &to);
    void copy_to(std::map<std::string, Stats> &to) const;
  };

  size_t n_most_idle_;
  uint64_t n_closed_ = 0;
  Kind<TenantStats> tenants_;
  Kind<AdapterStats> adapters_;
};

}  // namespace patchbay
