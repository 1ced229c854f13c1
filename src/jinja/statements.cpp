#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "jinja/evaluator_support.h"
#include "jinja/macro.h"
#include "jinja/objects.h"
#include "jinja/print.h"

namespace patchbay::jinja {

std::string Evaluator::run() {
  std::string text;
  out_ = &text;
  activation_ =
      std::make_shared<Activation>(static_cast<size_t>(template_.function.n_slots), nullptr);
  runtime_.keep(activation_);
  enter(template_.scope);
  (void)exec(template_.body);
  return text;
}

void Evaluator::enter(const ScopeEntry &entry) {
  for (const SlotLoad &load : entry) {
    auto &target = slot({.up = 0, .slot = load.slot});
    switch (load.from) {
      case SlotLoad::From::nothing:
        target.reset();
        break;
      case SlotLoad::From::outer:
        target = slot(load.outer);
        break;
      case SlotLoad::From::context: {
        const auto at = context_.find(load.name);
        target = at == context_.end() ? std::nullopt : std::optional<Value>(at->second);
        break;
      }
    }
  }
}

void Evaluator::write_text(std::string_view text) {
  *out_ += text;
  runtime_.made(text.size());
  if (out_->size() > k_max_output) {
    throw RenderError(Fault::limit,
                      fmt::format("the text is longer than {} MiB", k_max_output >> 20));
  }
}

void Evaluator::write(const Value &value) {
  if (const std::string *text = value.as_string()) {
    write_text(*text);
  } else {
    write_text(print(value));
  }
}

void Evaluator::write_result(const Value &value) {
  if (!value.is_string()) {
    type_error(fmt::format("expected str instance, {} found", value.type_name()));
  }
  write(value);
}

Evaluator::Flow Evaluator::exec(const Block &block) {
  const DepthGuard guard(*this);
  for (const Stmt &stmt : block) {
    runtime_.step();
    line_ = stmt.line;
    const Flow flow = std::visit([&](const auto &node) { return exec_node(node); }, stmt.node);
    if (flow != Flow::normal) return flow;
  }
  return Flow::normal;
}

Evaluator::Flow Evaluator::exec_node(const Output &node) {
  for (const auto &part : node.parts) {
    if (const auto *text = std::get_if<std::string>(&part)) {
      write_text(*text);
    } else {
      write(eval(*std::get<ExprPtr>(part)));
    }
  }
  return Flow::normal;
}

Evaluator::Flow Evaluator::exec_node(const If &node) {
  for (const auto &[test, body] : node.branches) {
    if (eval(*test).truth()) return exec(body);
  }
  return exec(node.otherwise);
}

Evaluator::Flow Evaluator::exec_node(const For &node) {
  const Value items = eval(*node.iterable);
  if (!node.is_recursive) return run_loop(node, items, nullptr, 0);
  const auto closure = activation_;  // another one is current while it runs
  write(run_recursive_loop(node, closure, items, 0));
  return Flow::normal;
}

Value Evaluator::run_recursive_loop(const For &node, const std::shared_ptr<Activation> &closure,
                                    const Value &items, int depth0) {
  const DepthGuard guard(*this);
  auto activation =
      std::make_shared<Activation>(static_cast<size_t>(node.function.n_slots), closure);
  runtime_.keep(activation);
  const ActivationGuard entered(activation_, activation);
  Capture capture(*this);
  const auto recurse = [this, &node, closure](const Value &inner, int depth) {
    return run_recursive_loop(node, closure, inner, depth);
  };
  (void)run_loop(node, items, recurse, depth0);
  runtime_.release(*activation);
  return capture.take();
}

Iterator Evaluator::filtered(const For &node, Iterator source) {
  return [this, &node, source = std::move(source)]() -> std::optional<Value> {
    while (auto item = source()) {
      runtime_.step();
      enter(node.test_scope);
      assign(*node.test_target, std::move(*item));
      if (eval(*node.test).truth()) return read_target(*node.test_target);
    }
    return std::nullopt;
  };
}

Evaluator::Flow Evaluator::run_loop(const For &node, const Value &items,
                                    const Loop::Recurse &recurse, int depth0) {
  Iterator source = iterate(items);
  auto length = node.test ? std::nullopt : find_length(items);
  if (node.test) source = filtered(node, std::move(source));
  const auto loop = std::make_shared<Loop>(std::move(source), length, recurse, depth0);
  runtime_.keep(loop);
  // jinja2 counts an iteration only when it comes to its end, so `else` also follows a loop that
  // was left in the first one.
  bool has_finished_one = false;
  while (auto item = loop->advance()) {
    runtime_.step();
    assign(*node.target, std::move(*item));
    if (node.loop_slot >= 0) slot({.up = 0, .slot = node.loop_slot}) = Value::object(loop);
    enter(node.body_scope);
    const Flow flow = exec(node.body);
    if (flow == Flow::leave_loop) break;
    if (flow == Flow::normal) has_finished_one = true;
  }
  if (node.loop_slot >= 0) slot({.up = 0, .slot = node.loop_slot}).reset();
  runtime_.release(*loop);
  if (has_finished_one || node.otherwise.empty()) return Flow::normal;
  enter(node.else_scope);
  return exec(node.otherwise);
}

Evaluator::Flow Evaluator::exec_node(const Set &node) {
  check_namespaces(*node.target);
  assign(*node.target, eval(*node.value));
  return Flow::normal;
}

Evaluator::Flow Evaluator::exec_node(const SetBlock &node) {
  enter(node.scope);
  Flow flow = Flow::normal;
  Value text;
  {
    Capture capture(*this);
    flow = exec(node.body);
    if (flow != Flow::normal) return flow;
    text = capture.take();
    if (node.filter) text = apply_filters(*node.filter, text);
  }
  check_namespaces(*node.target);
  assign(*node.target, std::move(text));
  return flow;
}

Evaluator::Flow Evaluator::exec_node(const FilterBlock &node) {
  enter(node.scope);
  Value text;
  {
    Capture capture(*this);
    const Flow flow = exec(node.body);
    if (flow != Flow::normal) return flow;
    text = capture.take();
  }
  write_result(apply_filters(*node.filter, text));
  return Flow::normal;
}

Evaluator::Flow Evaluator::exec_node(const With &node) {
  enter(node.scope);
  for (const auto &[target, value] : node.variables) assign(*target, eval(*value));
  return exec(node.body);
}

Evaluator::Flow Evaluator::exec_node(const Macro &node) {
  slot(node.ref) = make_macro(node.body, node.name);
  return Flow::normal;
}

Evaluator::Flow Evaluator::exec_node(const CallBlock &node) {
  const auto &target = std::get<Call>(node.call->node);
  const Value callee = eval(*target.callee);
  Arguments arguments = eval_arguments(target.arguments);
  if (arguments.take("caller")) {
    type_error("got multiple values for keyword argument 'caller'");
  }
  arguments.named.emplace_back("caller", make_macro(node.body, ""));
  write_result(call(callee, arguments));
  return Flow::normal;
}

Evaluator::Flow Evaluator::exec_node(const Generation &node) {
  const auto closure = activation_;
  write(call_macro(node.body, "", closure, {}));
  return Flow::normal;
}

Value Evaluator::make_macro(const MacroBody &macro, const std::string &name) {
  return Value::object(std::make_shared<MacroObject>(*this, macro, name, activation_));
}

void Evaluator::check_namespaces(const Expr &target) {
  if (const auto *tuple = std::get_if<TupleExpr>(&target.node)) {
    for (const ExprPtr &item : tuple->items) check_namespaces(*item);
  }
  const auto *ref = std::get_if<NamespaceRef>(&target.node);
  if (ref == nullptr) return;
  const auto &held = slot(ref->ref);
  if (!held || held->as<Namespace>() == nullptr) {
    throw RenderError(Fault::other, "cannot assign attribute on non-namespace object");
  }
}

void Evaluator::assign(const Expr &target, Value value) {
  if (const auto *name = std::get_if<Name>(&target.node)) {
    slot(name->ref) = std::move(value);
  } else if (const auto *ref = std::get_if<NamespaceRef>(&target.node)) {
    // Looked at again: an earlier part of the same tuple may have replaced it.
    check_namespaces(target);
    slot(ref->ref)->as<Namespace>()->set(ref->attribute, std::move(value));
  } else {
    assign_all(std::get<TupleExpr>(target.node).items, value);
  }
}

void Evaluator::assign_all(const std::vector<ExprPtr> &targets, const Value &value) {
  const Iterator next = iterate(value);
  std::vector<Value> items;
  while (auto item = next()) {
    if (items.size() == targets.size()) {
      value_error(fmt::format("too many values to unpack (expected {})", targets.size()));
    }
    items.push_back(std::move(*item));
  }
  if (items.size() < targets.size()) {
    value_error(fmt::format("not enough values to unpack (expected {}, got {})", targets.size(),
                            items.size()));
  }
  for (size_t i = 0; i < targets.size(); ++i) assign(*targets[i], std::move(items[i]));
}

Value Evaluator::read_target(const Expr &target) {
  if (const auto *tuple = std::get_if<TupleExpr>(&target.node)) {
    std::vector<Value> items;
    for (const ExprPtr &item : tuple->items) items.push_back(read_target(*item));
    return Value::tuple(std::move(items));
  }
  return *slot(std::get<Name>(target.node).ref);
}

}  // namespace patchbay::jinja
