#pragma once

#include "jinja/ast.h"

namespace patchbay::jinja {

/// Calls `visit` with each expression directly inside `arguments`, in the order of evaluation.
template <class Visit>
void for_each_argument(const CallArguments &arguments, const Visit &visit) {
  for (const ExprPtr &value : arguments.positional) visit(*value);
  for (const auto &[name, value] : arguments.named) visit(*value);
  if (arguments.more_positional) visit(*arguments.more_positional);
  if (arguments.more_named) visit(*arguments.more_named);
}

/// Calls `visit` with each expression directly inside an expression.
template <class Visit>
class PartVisitor {
 public:
  explicit PartVisitor(const Visit &visit) : visit_(visit) {}

  void operator()(const Constant & /*node*/) const {}
  void operator()(const Name & /*node*/) const {}
  void operator()(const NamespaceRef & /*node*/) const {}
  void operator()(const TupleExpr &node) const { all(node.items); }
  void operator()(const ListExpr &node) const { all(node.items); }
  void operator()(const DictExpr &node) const {
    for (const auto &[key, value] : node.entries) {
      one(key);
      one(value);
    }
  }
  void operator()(const Unary &node) const { one(node.operand); }
  void operator()(const Binary &node) const {
    one(node.left);
    one(node.right);
  }
  void operator()(const Logical &node) const {
    one(node.left);
    one(node.right);
  }
  void operator()(const Compare &node) const {
    one(node.first);
    for (const auto &[op, operand] : node.rest) one(operand);
  }
  void operator()(const Concat &node) const { all(node.parts); }
  void operator()(const Conditional &node) const {
    one(node.test);
    one(node.then);
    one(node.otherwise);
  }
  void operator()(const Attribute &node) const { one(node.object); }
  void operator()(const Item &node) const {
    one(node.object);
    one(node.index);
  }
  void operator()(const Slice &node) const {
    one(node.object);
    one(node.start);
    one(node.stop);
    one(node.step);
  }
  void operator()(const Call &node) const {
    one(node.callee);
    for_each_argument(node.arguments, visit_);
  }
  void operator()(const Filter &node) const {
    one(node.operand);
    for_each_argument(node.arguments, visit_);
  }
  void operator()(const Test &node) const {
    one(node.operand);
    for_each_argument(node.arguments, visit_);
  }

 private:
  void one(const ExprPtr &part) const {
    if (part) visit_(*part);
  }
  void all(const std::vector<ExprPtr> &parts) const {
    for (const ExprPtr &part : parts) one(part);
  }

  const Visit &visit_;
};

template <class Visit>
void for_each_part(const Expr &expr, const Visit &visit) {
  std::visit(PartVisitor<Visit>(visit), expr.node);
}

}  // namespace patchbay::jinja
