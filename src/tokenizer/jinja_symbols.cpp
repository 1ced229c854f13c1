#include "tokenizer/jinja_symbols.h"

#include <utility>

namespace patchbay::jinja {

int Symbols::define(const std::string &name, Load load) {
  const auto [at, is_new] = slots_->try_emplace(name, function_->n_slots);
  if (is_new) ++function_->n_slots;
  refs_[name] = at->second;
  loads_[at->second] = std::move(load);
  return at->second;
}

std::optional<VarRef> Symbols::find(const std::string &name) const {
  for (const Symbols *scope = this; scope != nullptr; scope = scope->parent_) {
    const auto at = scope->refs_.find(name);
    if (at != scope->refs_.end()) {
      return VarRef{.up = level_ - scope->level_, .slot = at->second};
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
  if (refs_.contains(name)) return;
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

void Symbols::merge_branches(const std::vector<Symbols> &branches) {
  // A name that only some branches assign to keeps, in the others, what it was before.
  std::set<std::string> maybe_stored;
  for (const Symbols &branch : branches) {
    for (const std::string &name : branch.stores_) {
      if (!stores_.contains(name)) maybe_stored.insert(name);
    }
  }
  for (const Symbols &branch : branches) {
    for (const auto &[name, slot] : branch.refs_) refs_[name] = slot;
    for (const auto &[slot, load] : branch.loads_) loads_[slot] = load;
    stores_.insert(branch.stores_.begin(), branch.stores_.end());
  }
  for (const std::string &name : maybe_stored) {
    Load &load = loads_[refs_.at(name)];
    if (const auto outer = find_outside(name)) {
      load = {.from = SlotLoad::From::outer, .outer = *outer};
    } else {
      load = {.from = SlotLoad::From::context, .name = name};
    }
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
