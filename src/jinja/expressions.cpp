#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "jinja/attributes.h"
#include "jinja/compare.h"
#include "jinja/evaluator_support.h"
#include "jinja/filters.h"
#include "jinja/objects.h"
#include "jinja/operators.h"
#include "jinja/print.h"
#include "jinja/tests.h"

namespace patchbay::jinja {

Value Evaluator::eval(const Expr &expr) {
  const DepthGuard guard(*this);
  runtime_.step();
  line_ = expr.line;
  return std::visit([&](const auto &node) { return eval_node(node); }, expr.node);
}

std::optional<Value> &Evaluator::slot(const VarRef &ref) {
  Activation *activation = activation_.get();
  for (int i = 0; i < ref.up; ++i) activation = activation->outer.get();
  return activation->slots[static_cast<size_t>(ref.slot)];
}

Value Evaluator::eval_node(const Name &node) {
  const auto &held = slot(node.ref);
  return held ? *held : Value::undefined(fmt::format("'{}' is undefined", node.name));
}

Value Evaluator::eval_node(const NamespaceRef &node) {
  const auto &held = slot(node.ref);
  return held ? get_attribute(*held, node.attribute) : Value::undefined(node.name);
}

std::vector<Value> Evaluator::eval_all(const std::vector<ExprPtr> &exprs) {
  std::vector<Value> values;
  values.reserve(exprs.size());
  for (const ExprPtr &expr : exprs) values.push_back(eval(*expr));
  return values;
}

Value Evaluator::eval_node(const TupleExpr &node) { return Value::tuple(eval_all(node.items)); }

Value Evaluator::eval_node(const ListExpr &node) { return Value::list(eval_all(node.items)); }

Value Evaluator::eval_node(const DictExpr &node) {
  std::vector<Dict::Entry> entries;
  for (const auto &[key, value] : node.entries) {
    Value made_key = eval(*key);
    entries.emplace_back(std::move(made_key), eval(*value));
  }
  return Value::dict(std::move(entries));
}

Value Evaluator::eval_node(const Unary &node) {
  const Value operand = eval(*node.operand);
  switch (node.op) {
    case Unary::Op::negate:
      return negate(operand);
    case Unary::Op::affirm:
      return affirm(operand);
    case Unary::Op::negation:
      return Value::boolean(!operand.truth());
  }
  return {};
}

Value Evaluator::eval_node(const Binary &node) {
  const Value left = eval(*node.left);
  const Value right = eval(*node.right);
  Value result = apply(node.op, left, right);
  runtime_.made(result);
  return result;
}

Value Evaluator::eval_node(const Logical &node) {
  Value left = eval(*node.left);
  return left.truth() == node.is_and ? eval(*node.right) : left;
}

bool Evaluator::compare(Compare::Op op, const Value &left, const Value &right) {
  const size_t left_size = left.extent().size_bytes;
  const size_t right_size = right.extent().size_bytes;
  const bool is_in = op == Compare::Op::in || op == Compare::Op::not_in;
  // An item of a text is found while going through it once; an item of a list may have to be
  // compared with each.
  runtime_.read(is_in ? right_size : std::min(left_size, right_size));
  switch (op) {
    case Compare::Op::equal:
      return is_equal(left, right);
    case Compare::Op::unequal:
      return !is_equal(left, right);
    case Compare::Op::less:
      return is_ordered(left, Order::less, right);
    case Compare::Op::less_equal:
      return is_ordered(left, Order::less_equal, right);
    case Compare::Op::greater:
      return is_ordered(left, Order::greater, right);
    case Compare::Op::greater_equal:
      return is_ordered(left, Order::greater_equal, right);
    case Compare::Op::in:
      return contains(right, left);
    case Compare::Op::not_in:
      return !contains(right, left);
  }
  return false;
}

Value Evaluator::eval_node(const Compare &node) {
  Value left = eval(*node.first);
  for (const auto &[op, operand] : node.rest) {
    Value right = eval(*operand);
    if (!compare(op, left, right)) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Value Evaluator::eval_node(const Concat &node) {
  const auto parts = eval_all(node.parts);
  std::string text;
  for (const Value &part : parts) {
    text += print(part);
    check_value_size(text.size());
  }
  runtime_.made(text.size());
  return Value::string(std::move(text));
}

Value Evaluator::eval_node(const Conditional &node) {
  if (eval(*node.test).truth()) return eval(*node.then);
  if (node.otherwise) return eval(*node.otherwise);
  return Value::undefined(
      fmt::format("the inline if-expression on line {} evaluated to false and no else section was "
                  "defined.",
                  line_));
}

Value Evaluator::eval_node(const Attribute &node) {
  return get_attribute(eval(*node.object), node.name);
}

Value Evaluator::eval_node(const Item &node) {
  const Value object = eval(*node.object);
  return get_item(object, eval(*node.index));
}

Value Evaluator::eval_or_none(const ExprPtr &expr) { return expr ? eval(*expr) : Value::none(); }

Value Evaluator::eval_node(const Slice &node) {
  const Value object = eval(*node.object);
  const Value start = eval_or_none(node.start);
  const Value stop = eval_or_none(node.stop);
  const Value step = eval_or_none(node.step);
  if (const std::string *text = object.as_string()) runtime_.read(text->size());
  Value result = get_slice(object, start, stop, step);
  runtime_.made(result);
  return result;
}

Arguments Evaluator::eval_arguments(const CallArguments &arguments) {
  Arguments values{.positional = eval_all(arguments.positional), .named = {}};
  for (const auto &[name, value] : arguments.named) values.named.emplace_back(name, eval(*value));
  if (arguments.more_positional) {
    for (Value &value : collect(runtime_, eval(*arguments.more_positional))) {
      values.positional.push_back(std::move(value));
    }
  }
  if (!arguments.more_named) return values;
  const Value more = eval(*arguments.more_named);
  if (more.as_dict() == nullptr) type_error("argument after ** must be a mapping");
  for (const auto &[key, value] : more.as_dict()->entries()) {
    if (!key.is_string()) type_error("keywords must be strings");
    const std::string &name = *key.as_string();
    const bool is_known = std::any_of(values.named.begin(), values.named.end(),
                                      [&](const auto &named) { return named.first == name; });
    if (is_known) {
      type_error(fmt::format("got multiple values for keyword argument '{}'", name));
    }
    values.named.emplace_back(name, value);
  }
  return values;
}

Value Evaluator::eval_node(const Call &node) {
  const Value callee = eval(*node.callee);
  return call(callee, eval_arguments(node.arguments));
}

Value Evaluator::call(const Value &callee, const Arguments &arguments) {
  refuse_undefined(callee);
  Object *object = callee.as_object();
  if (object == nullptr) {
    type_error(fmt::format("{} object is not callable", quoted_type(callee)));
  }
  Value result = object->call(runtime_, arguments);
  runtime_.made(result);
  return result;
}

Value Evaluator::apply_filter(const Filter &node, const Value &operand) {
  const FilterBody filter = find_filter(node.name);
  if (filter == nullptr) {
    throw RenderError(Fault::other, fmt::format("No filter named '{}' found.", node.name));
  }
  Value result = filter(runtime_, operand, eval_arguments(node.arguments));
  runtime_.made(result);
  return result;
}

Value Evaluator::eval_node(const Filter &node) { return apply_filter(node, eval(*node.operand)); }

Value Evaluator::apply_filters(const Expr &filter, const Value &text) {
  const DepthGuard guard(*this);
  const auto &node = std::get<Filter>(filter.node);
  return apply_filter(node, node.operand ? apply_filters(*node.operand, text) : text);
}

Value Evaluator::eval_node(const Test &node) {
  const Value operand = eval(*node.operand);
  const TestBody test = find_test(node.name);
  if (test == nullptr) {
    throw RenderError(Fault::other, fmt::format("No test named '{}' found.", node.name));
  }
  return Value::boolean(test(runtime_, operand, eval_arguments(node.arguments)));
}

}  // namespace patchbay::jinja
