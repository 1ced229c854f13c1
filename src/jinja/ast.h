#pragma once

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "jinja/operators.h"
#include "jinja/value.h"

// A template as it was read. Names are bound to slots by scopes.h.
namespace patchbay::jinja {

struct Expr;
struct Stmt;
using ExprPtr = std::unique_ptr<Expr>;
using Block = std::vector<Stmt>;

/// Where a variable lives: slot `slot` of the function `up` levels out.
struct VarRef {
  int up = 0;
  int slot = -1;
};

/// What a scope does to one of its slots when it is entered.
struct SlotLoad {
  enum class From {
    nothing,  ///< no value yet
    outer,    ///< that of `outer`
    context,  ///< what the caller or the language knows under `name`
  };

  int slot = -1;
  From from = From::nothing;
  VarRef outer;
  std::string name;
};

using ScopeEntry = std::vector<SlotLoad>;

struct CallArguments {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr more_positional;  ///< *values; may be null
  ExprPtr more_named;       ///< **values; may be null
};

struct Constant {
  Value value;
};
struct Name {
  std::string name;
  VarRef ref;
};
/// `name.attribute` where it is assigned to.
struct NamespaceRef {
  std::string name;
  std::string attribute;
  VarRef ref;
};
struct TupleExpr {
  std::vector<ExprPtr> items;
};
struct ListExpr {
  std::vector<ExprPtr> items;
};
struct DictExpr {
  std::vector<std::pair<ExprPtr, ExprPtr>> entries;
};
struct Unary {
  enum class Op { negate, affirm, negation };
  Op op;
  ExprPtr operand;
};
struct Binary {
  BinaryOp op;
  ExprPtr left;
  ExprPtr right;
};
struct Logical {
  bool is_and;
  ExprPtr left;
  ExprPtr right;
};
struct Compare {
  enum class Op { equal, unequal, less, less_equal, greater, greater_equal, in, not_in };
  ExprPtr first;
  std::vector<std::pair<Op, ExprPtr>> rest;
};
struct Concat {
  std::vector<ExprPtr> parts;
};
struct Conditional {
  ExprPtr test;
  ExprPtr then;
  ExprPtr otherwise;  ///< may be null
};
struct Attribute {
  ExprPtr object;
  std::string name;
};
struct Item {
  ExprPtr object;
  ExprPtr index;
};
/// Each bound may be null.
struct Slice {
  ExprPtr object;
  ExprPtr start;
  ExprPtr stop;
  ExprPtr step;
};
struct Call {
  ExprPtr callee;
  CallArguments arguments;
};
struct Filter {
  ExprPtr operand;  ///< null: the text of the block that is filtered
  std::string name;
  CallArguments arguments;
};
struct Test {
  ExprPtr operand;
  std::string name;
  CallArguments arguments;
};

struct Expr {
  int line = 1;
  int depth = 1;  ///< levels of expressions in it
  std::variant<Constant, Name, NamespaceRef, TupleExpr, ListExpr, DictExpr, Unary, Binary, Logical,
               Compare, Concat, Conditional, Attribute, Item, Slice, Call, Filter, Test>
      node;
};

/// Something with slots of its own: the template itself, a macro, a recursive loop.
struct FunctionInfo {
  int n_slots = 0;
};

struct Output {
  std::vector<std::variant<std::string, ExprPtr>> parts;
};
struct If {
  std::vector<std::pair<ExprPtr, Block>> branches;
  Block otherwise;
};
struct For {
  ExprPtr target;
  ExprPtr iterable;
  ExprPtr test;  ///< may be null
  Block body;
  Block otherwise;
  bool is_recursive = false;
  FunctionInfo function;  ///< of a recursive loop
  /// The target as the test sees it, which has slots of its own; null without a test.
  ExprPtr test_target;
  int loop_slot = -1;  ///< -1: the body does not use `loop`
  ScopeEntry body_scope;
  ScopeEntry test_scope;
  ScopeEntry else_scope;
};
struct Set {
  ExprPtr target;
  ExprPtr value;
};
struct SetBlock {
  ExprPtr target;
  ExprPtr filter;  ///< may be null
  Block body;
  ScopeEntry scope;
};
/// A macro without its name: also the body of a call block or a generation block.
struct MacroBody {
  struct Parameter {
    std::string name;
    ExprPtr otherwise;  ///< may be null
    int slot = -1;
  };
  std::vector<Parameter> parameters;
  Block body;
  FunctionInfo function;
  ScopeEntry scope;
  // Slots of what a macro may use without naming it; -1 when it does not.
  int caller_slot = -1;
  int varargs_slot = -1;
  int kwargs_slot = -1;
};
struct Macro {
  std::string name;
  VarRef ref;
  MacroBody body;
};
struct CallBlock {
  ExprPtr call;
  MacroBody body;
};
struct FilterBlock {
  ExprPtr filter;
  Block body;
  ScopeEntry scope;
};
struct With {
  std::vector<std::pair<ExprPtr, ExprPtr>> variables;
  Block body;
  ScopeEntry scope;
};
/// What an assistant said; renders as its body.
struct Generation {
  MacroBody body;
};
struct Break {};
struct Continue {};

struct Stmt {
  int line = 1;
  std::variant<Output, If, For, Set, SetBlock, Macro, CallBlock, FilterBlock, With, Generation,
               Break, Continue>
      node;
};

struct Template {
  Block body;
  FunctionInfo function;
  ScopeEntry scope;
};

}  // namespace patchbay::jinja
