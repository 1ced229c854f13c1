#pragma once

#include "jinja/ast.h"
#include "jinja/symbols.h"

namespace patchbay::jinja {

/// Finds the names of one scope, without going into the scopes inside of it.
class NameCollector {
 public:
  /// Adds to `symbols`, which must outlive it.
  explicit NameCollector(Symbols &symbols) : symbols_(&symbols) {}

  void read(const Expr &expr);
  /// `expr` may be null.
  void read(const ExprPtr &expr);
  void assign(const Expr &target, bool as_parameter);
  void collect(const Block &block);

 private:
  void collect_node(const Output &node);
  void collect_node(const If &node);
  void collect_node(const For &node);
  void collect_node(const Set &node);
  void collect_node(const SetBlock &node);
  void collect_node(const Macro &node);
  void collect_node(const CallBlock &node);
  void collect_node(const FilterBlock &node);
  void collect_node(const With &node);
  void collect_node(const Generation & /*node*/) {}
  void collect_node(const Break & /*node*/) {}
  void collect_node(const Continue & /*node*/) {}
  void collect_branch(const ExprPtr &test, const Block &body);

  template <class Body>
  [[nodiscard]] Symbols branch(const Body &body);

  Symbols *symbols_;
};

}  // namespace patchbay::jinja
