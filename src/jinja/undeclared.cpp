#include "jinja/undeclared.h"

#include <utility>

#include "jinja/walk.h"

namespace patchbay::jinja {

namespace {

/// Goes through a block in the order in which jinja2 stores its parts.
class Finder {
 public:
  explicit Finder(std::set<std::string> names) : names_(std::move(names)) {}

  [[nodiscard]] const std::set<std::string> &found() const { return found_; }

  void walk(const Block &block) {
    for (const Stmt &stmt : block) {
      std::visit([&](const auto &node) { walk_node(node); }, stmt.node);
    }
  }

 private:
  void read(const Expr &expr) {
    if (const auto *name = std::get_if<Name>(&expr.node)) {
      if (names_.contains(name->name)) found_.insert(name->name);
    }
    for_each_part(expr, [&](const Expr &part) { read(part); });
  }

  void read(const ExprPtr &expr) {
    if (expr) read(*expr);
  }

  void mention(const Expr &target) {
    if (const auto *name = std::get_if<Name>(&target.node)) names_.erase(name->name);
    for_each_part(target, [&](const Expr &part) { mention(part); });
  }

  void walk_node(const Output &node) {
    for (const auto &part : node.parts) {
      if (const auto *expr = std::get_if<ExprPtr>(&part)) read(*expr);
    }
  }

  void walk_node(const If &node) {
    for (const auto &[test, body] : node.branches) {
      read(test);
      walk(body);
    }
    walk(node.otherwise);
  }

  void walk_node(const For &node) {
    mention(*node.target);
    read(node.iterable);
    walk(node.body);
    walk(node.otherwise);
    read(node.test);
  }

  void walk_node(const Set &node) {
    mention(*node.target);
    read(node.value);
  }

  void walk_node(const SetBlock &node) {
    mention(*node.target);
    read(node.filter);
    walk(node.body);
  }

  void walk_node(const MacroBody &node) {
    for (const auto &parameter : node.parameters) names_.erase(parameter.name);
    for (const auto &parameter : node.parameters) read(parameter.otherwise);
    walk(node.body);
  }

  void walk_node(const Macro &node) { walk_node(node.body); }

  void walk_node(const CallBlock &node) {
    read(node.call);
    walk_node(node.body);
  }

  void walk_node(const FilterBlock &node) {
    walk(node.body);
    read(node.filter);
  }

  void walk_node(const With &node) {
    for (const auto &[target, value] : node.variables) mention(*target);
    for (const auto &[target, value] : node.variables) read(value);
    walk(node.body);
  }

  void walk_node(const Generation &node) { walk_node(node.body); }
  void walk_node(const Break & /*node*/) {}
  void walk_node(const Continue & /*node*/) {}

  std::set<std::string> names_;
  std::set<std::string> found_;
};

}  // namespace

std::set<std::string> find_undeclared(const Block &block, std::set<std::string> names) {
  Finder finder(std::move(names));
  finder.walk(block);
  return finder.found();
}

}  // namespace patchbay::jinja
