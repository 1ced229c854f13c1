#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "jinja/arguments.h"
#include "jinja/ast.h"
#include "jinja/loop.h"
#include "jinja/runtime.h"

namespace patchbay::jinja {

/// The slots of one call of a function of a template. Macros that it defines hold it.
struct Activation : Holder {
  Activation(size_t n_slots, std::shared_ptr<Activation> outer_activation)
      : slots(n_slots), outer(std::move(outer_activation)) {}

  void clear() override {
    for (auto &slot : slots) slot.reset();
  }

  std::vector<std::optional<Value>> slots;
  std::shared_ptr<Activation> outer;
};

/// Renders one template once. One thread.
class Evaluator {
 public:
  using Context = std::unordered_map<std::string, Value>;

  /// `context`: what the caller and the language know by name. All must outlive this.
  Evaluator(const Template &source, const Context &context, Runtime &runtime)
      : template_(source), context_(context), runtime_(runtime) {}

  /// Throws RenderError.
  [[nodiscard]] std::string run();

  /// Where the last error was, or where rendering is.
  [[nodiscard]] int line() const { return line_; }

  /// What a macro does when it is called.
  [[nodiscard]] Value call_macro(const MacroBody &macro, const std::string &name,
                                 const std::shared_ptr<Activation> &closure,
                                 const Arguments &arguments);

 private:
  enum class Flow { normal, leave_loop, next_item };

  class DepthGuard;
  class Capture;

  [[nodiscard]] Value eval(const Expr &expr);
  [[nodiscard]] Value eval_node(const Constant &node) { return node.value; }
  [[nodiscard]] Value eval_node(const Name &node);
  [[nodiscard]] Value eval_node(const NamespaceRef &node);
  [[nodiscard]] Value eval_node(const TupleExpr &node);
  [[nodiscard]] Value eval_node(const ListExpr &node);
  [[nodiscard]] Value eval_node(const DictExpr &node);
  [[nodiscard]] Value eval_node(const Unary &node);
  [[nodiscard]] Value eval_node(const Binary &node);
  [[nodiscard]] Value eval_node(const Logical &node);
  [[nodiscard]] Value eval_node(const Compare &node);
  [[nodiscard]] Value eval_node(const Concat &node);
  [[nodiscard]] Value eval_node(const Conditional &node);
  [[nodiscard]] Value eval_node(const Attribute &node);
  [[nodiscard]] Value eval_node(const Item &node);
  [[nodiscard]] Value eval_node(const Slice &node);
  [[nodiscard]] Value eval_node(const Call &node);
  [[nodiscard]] Value eval_node(const Filter &node);
  [[nodiscard]] Value eval_node(const Test &node);
  [[nodiscard]] bool compare(Compare::Op op, const Value &left, const Value &right);
  [[nodiscard]] std::vector<Value> eval_all(const std::vector<ExprPtr> &exprs);
  [[nodiscard]] Value eval_or_none(const ExprPtr &expr);
  [[nodiscard]] Arguments eval_arguments(const CallArguments &arguments);
  [[nodiscard]] Value call(const Value &callee, const Arguments &arguments);
  [[nodiscard]] Value apply_filter(const Filter &node, const Value &operand);
  /// A chain of filters whose innermost operand is `text`.
  [[nodiscard]] Value apply_filters(const Expr &filter, const Value &text);

  [[nodiscard]] Flow exec(const Block &block);
  [[nodiscard]] Flow exec_node(const Output &node);
  [[nodiscard]] Flow exec_node(const If &node);
  [[nodiscard]] Flow exec_node(const For &node);
  [[nodiscard]] Flow exec_node(const Set &node);
  [[nodiscard]] Flow exec_node(const SetBlock &node);
  [[nodiscard]] Flow exec_node(const Macro &node);
  [[nodiscard]] Flow exec_node(const CallBlock &node);
  [[nodiscard]] Flow exec_node(const FilterBlock &node);
  [[nodiscard]] Flow exec_node(const With &node);
  [[nodiscard]] Flow exec_node(const Generation &node);
  [[nodiscard]] Flow exec_node(const Break & /*node*/) { return Flow::leave_loop; }
  [[nodiscard]] Flow exec_node(const Continue & /*node*/) { return Flow::next_item; }

  [[nodiscard]] Flow run_loop(const For &node, const Value &items, const Loop::Recurse &recurse,
                              int depth0);
  [[nodiscard]] Value run_recursive_loop(const For &node,
                                         const std::shared_ptr<Activation> &closure,
                                         const Value &items, int depth0);
  [[nodiscard]] Iterator filtered(const For &node, Iterator source);
  [[nodiscard]] Value make_macro(const MacroBody &macro, const std::string &name);
  void bind_parameters(const MacroBody &macro, const std::string &name, Arguments arguments,
                       Activation &activation);

  void write(const Value &value);
  /// What a filter block or a call block gives, which jinja2 does not print but takes for text.
  void write_result(const Value &value);
  void write_text(std::string_view text);
  void enter(const ScopeEntry &entry);
  [[nodiscard]] std::optional<Value> &slot(const VarRef &ref);
  void assign(const Expr &target, Value value);
  void assign_all(const std::vector<ExprPtr> &targets, const Value &value);
  void check_namespaces(const Expr &target);
  /// What the slots of a target hold.
  [[nodiscard]] Value read_target(const Expr &target);

  const Template &template_;
  const Context &context_;
  Runtime &runtime_;
  std::shared_ptr<Activation> activation_;
  std::string *out_ = nullptr;
  int depth_ = 0;
  int line_ = 1;
};

}  // namespace patchbay::jinja
