#include "jinja/symbols.h"

#include <fmt/format.h>

#include <utility>

#include "jinja/limits.h"
#include "jinja/syntax_error.h"

namespace patchbay::jinja {

int Symbols::define(const std::string &name, Load load) {
  const auto [at, is_new] = slots_->try_emplace(name, function_->n_slots);
  if (is_new && ++function_->n_slots > k_max_variables) {
    throw SyntaxError(1, fmt::format("there are more than {} variables", k_max_variables));
  }
  refs_[name] = at->second;
  loads_[at->second] = std::move(load);
  return at->second;
}

std::optional<int> Symbols::find_slot(const std::string &name) const {
  for (const Symbols *part = this; part != nullptr; part = part->whole_) {
    const auto at = part->refs_.find(name);
    if (at != part->refs_.end()) return at->second;
  }
  return std::nullopt;
}

bool Symbols::is_stored(const std::string &name) const {
  return stores_.contains(name) || (whole_ != nullptr && whole_->is_stored(name));
}

std::optional<VarRef> Symbols::find(const std::string &name) const {
  for (const Symbols *scope = this; scope != nullptr; scope = scope->parent_) {
    if (const auto slot = scope->find_slot(name)) {
      return VarRef{.up = level_ - scope->level_, .slot = *slot};
    }
  }
  return std::nullopt;
}

std::optional<VarRef> Symbols::find_outside(const std::string &name) const {
  if (parent_ == nullptr) return std::nullopt;
  auto ref = parent_->find(name);
  if (ref) ref->up += level_ - parent_->level_;
  return ref;
}

void Symbols::load(const std::string &name) {
  if (!find(name)) define(name, {.from = SlotLoad::From::context, .name = name});
}

void Symbols::store(const std::string &name) {
  stores_.insert(name);
  if (find_slot(name)) return;
  if (const auto outer = find_outside(name)) {
    define(name, {.from = SlotLoad::From::outer, .outer = *outer});
  } else {
    define(name, {.from = SlotLoad::From::nothing});
  }
}

int Symbols::declare_parameter(const std::string &name) {
  stores_.insert(name);
  return define(name, {.is_parameter = true});
}

Symbols Symbols::branch() const {
  Symbols branch(parent_, *function_, level_);
  branch.whole_ = this;
  branch.slots_ = slots_;
  return branch;
}

void Symbols::merge_branches(const std::vector<Symbols> &branches) {
  // A name that only some branches assign to keeps, in the others, what it was before.
  std::set<std::string> maybe_stored;
  for (const Symbols &branch : branches) {
    for (const std::string &name : branch.stores_) {
      if (!is_stored(name)) maybe_stored.insert(name);
    }
  }
  for (const Symbols &branch : branches) {
    for (const auto &[name, slot] : branch.refs_) refs_[name] = slot;
    for (const auto &[slot, load] : branch.loads_) loads_[slot] = load;
    stores_.insert(branch.stores_.begin(), branch.stores_.end());
  }
  for (const std::string &name : maybe_stored) {
    Load load{.from = SlotLoad::From::context, .name = name};
    if (const auto outer = find_outside(name)) {
      load = {.from = SlotLoad::From::outer, .outer = *outer};
    }
    loads_[*find_slot(name)] = load;
  }
}

ScopeEntry Symbols::entry() const {
  ScopeEntry entry;
  for (const auto &[slot, load] : loads_) {
    if (load.is_parameter) continue;
    entry.push_back({.slot = slot, .from = load.from, .outer = load.outer, .name = load.name});
  }
  return entry;
}

}  // namespace patchbay::jinja
