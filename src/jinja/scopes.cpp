#include "jinja/scopes.h"

#include <fmt/format.h>

#include <utility>

#include "jinja/filters.h"
#include "jinja/name_collector.h"
#include "jinja/symbols.h"
#include "jinja/syntax_error.h"
#include "jinja/tests.h"
#include "jinja/undeclared.h"
#include "jinja/walk.h"

namespace patchbay::jinja {

namespace {

ExprPtr clone_target(const Expr &target) {
  auto copy = std::make_unique<Expr>(Expr{.line = target.line, .depth = target.depth, .node = {}});
  if (const auto *name = std::get_if<Name>(&target.node)) {
    copy->node = Name{.name = name->name, .ref = {}};
    return copy;
  }
  TupleExpr tuple;
  for (const ExprPtr &item : std::get<TupleExpr>(target.node).items) {
    tuple.items.push_back(clone_target(*item));
  }
  copy->node = std::move(tuple);
  return copy;
}

/// Gives every name its variable, scope after scope from the outside.
class Binder {
 public:
  void bind(Template &result) {
    Symbols symbols(nullptr, result.function, 0);
    NameCollector(symbols).collect(result.body);
    for (const SlotLoad &load : symbols.entry()) {
      if (load.from == SlotLoad::From::context && load.name == "self") {
        throw SyntaxError(1, "'self' is not supported in chat templates");
      }
    }
    bind_block(result.body, symbols, {});
    result.scope = symbols.entry();
  }

 private:
  /// What surrounds a place inside its function.
  struct Place {
    bool is_guarded = false;  ///< by a condition: unknown filters are found out when they are used
    bool in_loop = false;     ///< `break` has a loop to end
    bool in_for = false;      ///< `loop` cannot be assigned to; also in macros inside

    [[nodiscard]] Place inside() const { return {.in_loop = in_loop, .in_for = in_for}; }
    [[nodiscard]] Place inside_function() const { return {.in_for = in_for}; }
  };

  void bind_expr(Expr &expr, const Symbols &symbols, bool is_guarded) {
    if (auto *name = std::get_if<Name>(&expr.node)) name->ref = ref_of(name->name, symbols);
    if (auto *ref = std::get_if<NamespaceRef>(&expr.node)) ref->ref = ref_of(ref->name, symbols);
    if (!is_guarded) check_known(expr);
    const bool guards = is_guarded || std::holds_alternative<Conditional>(expr.node);
    for_each_part(expr, [&](Expr &part) { bind_expr(part, symbols, guards); });
  }

  void bind_expr(const ExprPtr &expr, const Symbols &symbols, bool is_guarded) {
    if (expr) bind_expr(*expr, symbols, is_guarded);
  }

  static VarRef ref_of(const std::string &name, const Symbols &symbols) {
    const auto ref = symbols.find(name);
    if (!ref) throw SyntaxError(1, fmt::format("the name '{}' was lost", name));
    return *ref;
  }

  static void check_known(const Expr &expr) {
    if (const auto *filter = std::get_if<Filter>(&expr.node)) {
      if (find_filter(filter->name) == nullptr) {
        throw SyntaxError(expr.line, fmt::format("No filter named '{}'.", filter->name));
      }
    }
    if (const auto *test = std::get_if<Test>(&expr.node)) {
      if (find_test(test->name) == nullptr) {
        throw SyntaxError(expr.line, fmt::format("No test named '{}'.", test->name));
      }
    }
  }

  void bind_target(Expr &target, const Symbols &symbols, const Place &place) {
    const auto *name = std::get_if<Name>(&target.node);
    if (place.in_for && name != nullptr && name->name == "loop") {
      throw SyntaxError(target.line, "Can't assign to special loop variable in for-loop target");
    }
    if (const auto *tuple = std::get_if<TupleExpr>(&target.node)) {
      for (const ExprPtr &item : tuple->items) bind_target(*item, symbols, place);
      return;
    }
    bind_expr(target, symbols, true);
  }

  void bind_block(Block &block, const Symbols &symbols, const Place &place) {
    for (Stmt &stmt : block) {
      line_ = stmt.line;
      std::visit([&](auto &node) { bind_node(node, symbols, place); }, stmt.node);
    }
  }

  void bind_node(Output &node, const Symbols &symbols, const Place &place) {
    for (auto &part : node.parts) {
      if (auto *expr = std::get_if<ExprPtr>(&part)) bind_expr(*expr, symbols, place.is_guarded);
    }
  }

  void bind_node(If &node, const Symbols &symbols, Place place) {
    place.is_guarded = true;
    for (auto &[test, body] : node.branches) {
      bind_expr(test, symbols, true);
      bind_block(body, symbols, place);
    }
    bind_block(node.otherwise, symbols, place);
  }

  void bind_node(For &node, const Symbols &symbols, const Place &place) {
    bind_expr(node.iterable, symbols, place.is_guarded);
    FunctionInfo &function = node.is_recursive ? node.function : symbols.function();
    const int level = symbols.level() + (node.is_recursive ? 1 : 0);
    Place inside = node.is_recursive ? place.inside_function() : place.inside();
    inside.in_for = true;

    if (node.test) bind_loop_test(node, Symbols(&symbols, function, level), inside);

    Symbols otherwise(&symbols, function, level);
    NameCollector(otherwise).collect(node.otherwise);
    bind_block(node.otherwise, otherwise, inside);
    node.else_scope = otherwise.entry();

    Symbols body(&symbols, function, level);
    if (node.is_recursive || !find_undeclared(node.body, {"loop"}).empty()) {
      node.loop_slot = body.declare_parameter("loop");
    }
    NameCollector collector(body);
    collector.assign(*node.target, true);
    collector.collect(node.body);
    bind_target(*node.target, body, inside);
    inside.in_loop = true;
    bind_block(node.body, body, inside);
    node.body_scope = body.entry();
  }

  void bind_loop_test(For &node, Symbols symbols, const Place &place) {
    NameCollector collector(symbols);
    collector.assign(*node.target, true);
    collector.read(node.test);
    node.test_target = clone_target(*node.target);
    bind_target(*node.test_target, symbols, place);
    bind_expr(node.test, symbols, false);
    node.test_scope = symbols.entry();
  }

  void bind_node(Set &node, const Symbols &symbols, const Place &place) {
    bind_expr(node.value, symbols, place.is_guarded);
    bind_target(*node.target, symbols, place);
  }

  /// A block whose text goes through filters.
  template <class Node>
  void bind_filtered(Node &node, const Symbols &symbols, const Place &place) {
    Symbols inner(&symbols, symbols.function(), symbols.level());
    NameCollector collector(inner);
    collector.collect(node.body);
    collector.read(node.filter);
    bind_expr(node.filter, inner, false);
    bind_block(node.body, inner, place.inside());
    node.scope = inner.entry();
  }

  void bind_node(SetBlock &node, const Symbols &symbols, const Place &place) {
    bind_target(*node.target, symbols, place);
    bind_filtered(node, symbols, place);
  }

  void bind_macro(MacroBody &macro, const Symbols &symbols, const Place &place) {
    Symbols inner(&symbols, macro.function, symbols.level() + 1);
    NameCollector collector(inner);
    for (auto &parameter : macro.parameters) {
      parameter.slot = inner.declare_parameter(parameter.name);
    }
    for (const auto &parameter : macro.parameters) collector.read(parameter.otherwise);
    collector.collect(macro.body);
    declare_special(macro, inner);
    for (const auto &parameter : macro.parameters) bind_expr(parameter.otherwise, inner, false);
    bind_block(macro.body, inner, place.inside_function());
    macro.scope = inner.entry();
  }

  void declare_special(MacroBody &macro, Symbols &symbols) const {
    auto names = find_undeclared(macro.body, {"caller", "kwargs", "varargs"});
    for (const auto &parameter : macro.parameters) {
      if (!names.contains(parameter.name)) continue;
      if (parameter.name == "caller" && !parameter.otherwise) {
        throw SyntaxError(line_,
                          "When defining macros or call blocks the special \"caller\" argument "
                          "must be omitted or be given a default.");
      }
      names.erase(parameter.name);
    }
    if (names.contains("caller")) macro.caller_slot = symbols.declare_parameter("caller");
    if (names.contains("kwargs")) macro.kwargs_slot = symbols.declare_parameter("kwargs");
    if (names.contains("varargs")) macro.varargs_slot = symbols.declare_parameter("varargs");
  }

  void bind_node(Macro &node, const Symbols &symbols, const Place &place) {
    node.ref = ref_of(node.name, symbols);
    bind_macro(node.body, symbols, place);
  }

  void bind_node(CallBlock &node, const Symbols &symbols, const Place &place) {
    bind_expr(node.call, symbols, place.is_guarded);
    bind_macro(node.body, symbols, place);
  }

  void bind_node(FilterBlock &node, const Symbols &symbols, const Place &place) {
    bind_filtered(node, symbols, place);
  }

  void bind_node(With &node, const Symbols &symbols, const Place &place) {
    Symbols inner(&symbols, symbols.function(), symbols.level());
    NameCollector collector(inner);
    for (auto &[target, value] : node.variables) {
      bind_expr(value, symbols, place.is_guarded);
      collector.assign(*target, true);
    }
    collector.collect(node.body);
    // Its names are parameters, of which `loop` may be one.
    for (auto &[target, value] : node.variables) bind_target(*target, inner, {});
    bind_block(node.body, inner, place.inside());
    node.scope = inner.entry();
  }

  void bind_node(Generation &node, const Symbols &symbols, const Place &place) {
    bind_macro(node.body, symbols, place);
  }

  void bind_node(Break & /*node*/, const Symbols & /*symbols*/, const Place &place) {
    if (!place.in_loop) throw SyntaxError(line_, "'break' outside loop");
  }

  void bind_node(Continue & /*node*/, const Symbols & /*symbols*/, const Place &place) {
    if (!place.in_loop) throw SyntaxError(line_, "'continue' not properly in loop");
  }

  int line_ = 1;
};

}  // namespace

void bind_names(Template &result) { Binder().bind(result); }

}  // namespace patchbay::jinja
