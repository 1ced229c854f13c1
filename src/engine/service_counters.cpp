#include "engine/service_counters.h"

#include <algorithm>
#include <span>

#include "base/text.h"
#include "engine/worn_adapters.h"

namespace patchbay {
namespace {

/// Enough of a digest to tell an engine's adapters apart.
constexpr size_t k_n_digest_bytes = 8;

}  // namespace

std::string stats_key_of(const Adapter &adapter) {
  return hex(std::span(adapter.digest).first(k_n_digest_bytes));
}

template <class Stats>
auto ServiceCounters::Kind<Stats>::open(const std::string &name, size_t n_most_idle) -> Entry & {
  auto place = entries.find(name);
  if (place == entries.end()) {
    make_room(n_most_idle);
    place = entries.emplace(name, Entry{.changed = &changed}).first;
    place->second.name = &place->first;
    place->second.note_change();
  }
  ++place->second.n_open;
  return place->second;
}

template <class Stats>
void ServiceCounters::Kind<Stats>::make_room(size_t n_most_idle) {
  if (entries.size() < n_most_idle) return;
  const auto is_idle = [](const auto &entry) { return entry.second.n_open == 0; };
  auto n_idle = static_cast<size_t>(std::ranges::count_if(entries, is_idle));
  for (; n_idle > 0 && n_idle >= n_most_idle; --n_idle) {
    const auto oldest = std::ranges::min_element(entries, {}, [&](const auto &entry) {
      return std::pair(!is_idle(entry), entry.second.last_used);
    });
    std::erase(changed, &oldest->second);
    dropped.push_back(oldest->first);
    entries.erase(oldest);
  }
}

template <class Stats>
void ServiceCounters::Kind<Stats>::publish(std::map<std::string, Stats> &to) {
  for (const auto &name : dropped) to.erase(name);
  dropped.clear();
  for (Entry *entry : changed) {
    to[*entry->name] = entry->stats;
    entry->is_changed = false;
  }
  changed.clear();
}

template <class Stats>
void ServiceCounters::Kind<Stats>::copy_to(std::map<std::string, Stats> &to) const {
  to.clear();
  for (const auto &[name, entry] : entries) to[name] = entry.stats;
}

ServiceTicket ServiceCounters::open(const Request &request) {
  ServiceTicket ticket{.tenant = &tenants_.open(request.tenant, n_most_idle_)};
  for (const Adapter *adapter : worn_adapters(request)) {
    auto &entry = adapters_.open(stats_key_of(*adapter), n_most_idle_);
    entry.stats.name = adapter->name;
    ticket.adapters.push_back(&entry);
  }
  if (ticket.adapters.empty()) ticket.adapters.push_back(&adapters_.open("base", n_most_idle_));
  return ticket;
}

void ServiceCounters::close(ServiceTicket &ticket) {
  ++n_closed_;
  const auto leave = [&](auto &entry) {
    --entry.n_open;
    entry.last_used = n_closed_;
  };
  if (ticket.tenant != nullptr) leave(*ticket.tenant);
  for (auto *adapter : ticket.adapters) leave(*adapter);
  ticket = {};
}

void ServiceCounters::publish(EngineStats &stats) {
  tenants_.publish(stats.tenants);
  adapters_.publish(stats.adapters);
}

void ServiceCounters::copy_to(EngineStats &stats) const {
  tenants_.copy_to(stats.tenants);
  adapters_.copy_to(stats.adapters);
}

}  // namespace patchbay
