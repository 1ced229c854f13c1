#include "jinja/name_collector.h"

#include <utility>
#include <vector>

#include "jinja/walk.h"

namespace patchbay::jinja {

void NameCollector::read(const Expr &expr) {
  if (const auto *name = std::get_if<Name>(&expr.node)) symbols_->load(name->name);
  if (const auto *ref = std::get_if<NamespaceRef>(&expr.node)) symbols_->load(ref->name);
  for_each_part(expr, [&](const Expr &part) { read(part); });
}

void NameCollector::read(const ExprPtr &expr) {
  if (expr) read(*expr);
}

void NameCollector::assign(const Expr &target, bool as_parameter) {
  if (const auto *name = std::get_if<Name>(&target.node)) {
    if (as_parameter) {
      symbols_->declare_parameter(name->name);
    } else {
      symbols_->store(name->name);
    }
  }
  if (const auto *ref = std::get_if<NamespaceRef>(&target.node)) symbols_->load(ref->name);
  for_each_part(target, [&](const Expr &part) { assign(part, as_parameter); });
}

void NameCollector::collect(const Block &block) {
  for (const Stmt &stmt : block) {
    std::visit([&](const auto &node) { collect_node(node); }, stmt.node);
  }
}

void NameCollector::collect_node(const Output &node) {
  for (const auto &part : node.parts) {
    if (const auto *expr = std::get_if<ExprPtr>(&part)) read(*expr);
  }
}

template <class Body>
Symbols NameCollector::branch(const Body &body) {
  Symbols inner = symbols_->branch();
  Symbols *const whole = std::exchange(symbols_, &inner);
  body();
  symbols_ = whole;
  return inner;
}

/// An `elif` is a condition of its own that is met where the first one fails.
void NameCollector::collect_branch(const ExprPtr &test, const Block &body) {
  read(test);
  symbols_->merge_branches({branch([&] { collect(body); })});
}

void NameCollector::collect_node(const If &node) {
  read(node.branches.front().first);
  std::vector<Symbols> branches;
  branches.push_back(branch([&] { collect(node.branches.front().second); }));
  branches.push_back(branch([&] {
    for (size_t i = 1; i < node.branches.size(); ++i) {
      collect_branch(node.branches[i].first, node.branches[i].second);
    }
  }));
  branches.push_back(branch([&] { collect(node.otherwise); }));
  symbols_->merge_branches(branches);
}

void NameCollector::collect_node(const For &node) { read(node.iterable); }

void NameCollector::collect_node(const Set &node) {
  read(node.value);
  assign(*node.target, false);
}

void NameCollector::collect_node(const SetBlock &node) { assign(*node.target, false); }
void NameCollector::collect_node(const Macro &node) { symbols_->store(node.name); }
void NameCollector::collect_node(const CallBlock &node) { read(node.call); }
void NameCollector::collect_node(const FilterBlock &node) { read(node.filter); }

void NameCollector::collect_node(const With &node) {
  for (const auto &[target, value] : node.variables) read(value);
}

}  // namespace patchbay::jinja
