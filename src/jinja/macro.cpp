#include "jinja/macro.h"

#include <fmt/format.h>

#include <algorithm>

#include "jinja/evaluator_support.h"
#include "jinja/print.h"

namespace patchbay::jinja {

namespace {

bool has_parameter(const MacroBody &macro, std::string_view name) {
  return std::any_of(macro.parameters.begin(), macro.parameters.end(),
                     [&](const MacroBody::Parameter &parameter) { return parameter.name == name; });
}

}  // namespace

std::string MacroObject::repr(int /*depth*/) {
  return "<Macro " + (name_.empty() ? "anonymous" : repr_text(name_)) + ">";
}

Value MacroObject::call(Runtime & /*runtime*/, const Arguments &arguments) {
  return evaluator_.call_macro(macro_, name_, closure_, arguments);
}

std::optional<Value> MacroObject::attribute(std::string_view name) {
  if (name == "name") return name_.empty() ? Value::none() : Value::string(name_);
  if (name == "catch_kwargs") return Value::boolean(macro_.kwargs_slot >= 0);
  if (name == "catch_varargs") return Value::boolean(macro_.varargs_slot >= 0);
  if (name == "caller") return Value::boolean(macro_.caller_slot >= 0);
  if (name == "explicit_caller") return Value::boolean(has_parameter(macro_, "caller"));
  if (name == "arguments") {
    std::vector<Value> names;
    for (const auto &parameter : macro_.parameters) names.push_back(Value::string(parameter.name));
    return Value::tuple(std::move(names));
  }
  return std::nullopt;
}

/// As jinja2's Macro.__call__ does it: first by position, then by name, then what the body may use
/// without naming it.
void Evaluator::bind_parameters(const MacroBody &macro, const std::string &name,
                                Arguments arguments, Activation &activation) {
  auto &positional = arguments.positional;
  const size_t n_taken = std::min(positional.size(), macro.parameters.size());
  for (size_t i = 0; i < macro.parameters.size(); ++i) {
    const auto &parameter = macro.parameters[i];
    auto &target = activation.slots[static_cast<size_t>(parameter.slot)];
    target = i < n_taken ? positional[i] : arguments.take(parameter.name);
  }
  positional.erase(positional.begin(), positional.begin() + static_cast<ptrdiff_t>(n_taken));
  if (macro.caller_slot >= 0) {
    const auto caller = arguments.take("caller");
    activation.slots[static_cast<size_t>(macro.caller_slot)] =
        caller ? *caller : Value::undefined("No caller defined");
  }
  if (macro.kwargs_slot >= 0) {
    std::vector<Dict::Entry> rest;
    for (const auto &[key, value] : arguments.named) rest.emplace_back(Value::string(key), value);
    activation.slots[static_cast<size_t>(macro.kwargs_slot)] = Value::dict(std::move(rest));
  } else if (!arguments.named.empty()) {
    type_error(fmt::format("macro '{}' takes no keyword argument '{}'", name,
                           arguments.named.front().first));
  }
  if (macro.varargs_slot >= 0) {
    activation.slots[static_cast<size_t>(macro.varargs_slot)] = Value::tuple(std::move(positional));
  } else if (!positional.empty()) {
    type_error(fmt::format("macro '{}' takes not more than {} argument(s)", name,
                           macro.parameters.size()));
  }
}

Value Evaluator::call_macro(const MacroBody &macro, const std::string &name,
                            const std::shared_ptr<Activation> &closure,
                            const Arguments &arguments) {
  const DepthGuard guard(*this);
  auto activation =
      std::make_shared<Activation>(static_cast<size_t>(macro.function.n_slots), closure);
  runtime_.keep(activation);
  bind_parameters(macro, name, arguments, *activation);
  Value text;
  {
    const ActivationGuard entered(activation_, activation);
    Capture capture(*this);
    enter(macro.scope);
    for (const auto &parameter : macro.parameters) {
      auto &target = activation->slots[static_cast<size_t>(parameter.slot)];
      if (target) continue;
      target =
          parameter.otherwise
              ? eval(*parameter.otherwise)
              : Value::undefined(fmt::format("parameter '{}' was not provided", parameter.name));
    }
    (void)exec(macro.body);
    text = capture.take();
  }
  runtime_.release(*activation);
  return text;
}

}  // namespace patchbay::jinja
