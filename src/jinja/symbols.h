#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "jinja/ast.h"

namespace patchbay::jinja {

/// The names of one scope while they are being found out.
class Symbols {
 public:
  /// A scope with slots in `function`, which is `level` functions inside the template.
  Symbols(const Symbols *parent, FunctionInfo &function, int level)
      : parent_(parent), function_(&function), level_(level) {}

  [[nodiscard]] FunctionInfo &function() const { return *function_; }
  [[nodiscard]] int level() const { return level_; }

  /// The name is read.
  void load(const std::string &name);
  /// The name is assigned to.
  void store(const std::string &name);
  /// The name is assigned to before anything else happens. Gives its slot.
  int declare_parameter(const std::string &name);

  /// The same scope in one branch of a condition, to be merged when the condition ends. This must
  /// outlive it.
  [[nodiscard]] Symbols branch() const;
  void merge_branches(const std::vector<Symbols> &branches);

  [[nodiscard]] std::optional<VarRef> find(const std::string &name) const;
  [[nodiscard]] ScopeEntry entry() const;

 private:
  struct Load {
    bool is_parameter = false;
    SlotLoad::From from = SlotLoad::From::nothing;
    VarRef outer;
    std::string name;
  };

  int define(const std::string &name, Load load);
  [[nodiscard]] std::optional<int> find_slot(const std::string &name) const;
  [[nodiscard]] bool is_stored(const std::string &name) const;
  [[nodiscard]] std::optional<VarRef> find_outside(const std::string &name) const;

  const Symbols *parent_;
  const Symbols *whole_ = nullptr;  // set in a branch: what it adds to
  FunctionInfo *function_;
  int level_;
  // Shared by the branches of a condition, so that a name has one slot in all of them.
  std::shared_ptr<std::map<std::string, int>> slots_ =
      std::make_shared<std::map<std::string, int>>();
  std::map<std::string, int> refs_;
  std::map<int, Load> loads_;  // by slot
  std::set<std::string> stores_;
};

}  // namespace patchbay::jinja
