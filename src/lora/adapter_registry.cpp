#include "lora/adapter_registry.h"

#include <fmt/format.h>

#include <algorithm>

namespace patchbay {
namespace {

constexpr size_t k_longest_name = 256;

bool leaves_its_folder(std::string_view name) {
  if (name.front() == '/') return true;
  while (!name.empty()) {
    const std::string_view part = name.substr(0, name.find('/'));
    if (part == "..") return true;
    name.remove_prefix(std::min(name.size(), part.size() + 1));
  }
  return false;
}

}  // namespace

Expected<void> check_adapter_name(std::string_view name) {
  const auto refuse = [](std::string words) {
    return fail(ErrorCode::invalid_argument, "an adapter's name " + std::move(words));
  };
  if (name.empty()) return refuse("is empty");
  if (name.size() > k_longest_name)
    return refuse(fmt::format("has {} bytes: want at most {}", name.size(), k_longest_name));
  const auto is_bad = [](char c) {
    return c == ',' || static_cast<unsigned char>(c) < ' ' || c == '\x7F';
  };
  if (std::ranges::any_of(name, is_bad)) return refuse("holds a comma or a control character");
  if (leaves_its_folder(name)) return refuse("may not lead out of the adapter folder");
  return {};
}

std::vector<RegisteredAdapter>::iterator AdapterRegistry::at(std::string_view name) {
  return std::ranges::find(entries_, name, &RegisteredAdapter::name);
}

Expected<RegisteredAdapter> AdapterRegistry::add(RegisteredAdapter entry) {
  if (auto checked = check_adapter_name(entry.name); !checked)
    return tl::unexpected(checked.error());
  const std::lock_guard lock(mutex_);
  if (at(entry.name) != entries_.end()) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("the adapter '{}' has already been loaded", entry.name));
  }
  entry.id = next_id_++;
  return entries_.emplace_back(std::move(entry));
}

Expected<RegisteredAdapter> AdapterRegistry::replace(RegisteredAdapter entry) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = at(entry.name); found != entries_.end()) {
      entry.id = found->id;
      *found = entry;
      return entry;
    }
  }
  return add(std::move(entry));
}

Expected<RegisteredAdapter> AdapterRegistry::remove(std::string_view name) {
  const std::lock_guard lock(mutex_);
  const auto found = at(name);
  if (found == entries_.end())
    return fail(ErrorCode::not_found, fmt::format("there is no adapter '{}'", name));
  RegisteredAdapter removed = std::move(*found);
  entries_.erase(found);
  std::erase_if(defaults_, [&](const DefaultAdapter &one) { return one.id == removed.id; });
  return removed;
}

std::optional<RegisteredAdapter> AdapterRegistry::find(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(entries_, name, &RegisteredAdapter::name);
  return found == entries_.end() ? std::nullopt : std::optional(*found);
}

std::optional<RegisteredAdapter> AdapterRegistry::find(int64_t id) const {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(entries_, id, &RegisteredAdapter::id);
  return found == entries_.end() ? std::nullopt : std::optional(*found);
}

std::vector<RegisteredAdapter> AdapterRegistry::list() const {
  const std::lock_guard lock(mutex_);
  return entries_;
}

Expected<void> AdapterRegistry::set_defaults(const std::vector<DefaultAdapter> &defaults) {
  const std::lock_guard lock(mutex_);
  for (const auto &one : defaults) {
    if (std::ranges::find(entries_, one.id, &RegisteredAdapter::id) == entries_.end())
      return fail(ErrorCode::invalid_argument, fmt::format("there is no adapter of id {}", one.id));
  }
  defaults_ = defaults;
  std::erase_if(defaults_, [](const DefaultAdapter &one) { return one.strength == 0; });
  return {};
}

float AdapterRegistry::default_strength(int64_t id) const {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(defaults_, id, &DefaultAdapter::id);
  return found == defaults_.end() ? 0.0F : found->strength;
}

std::vector<std::pair<RegisteredAdapter, float>> AdapterRegistry::defaults() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::pair<RegisteredAdapter, float>> worn;
  for (const auto &one : defaults_) {
    const auto found = std::ranges::find(entries_, one.id, &RegisteredAdapter::id);
    if (found != entries_.end()) worn.emplace_back(*found, one.strength);
  }
  return worn;
}

}  // namespace patchbay
