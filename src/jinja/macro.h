#pragma once

#include <memory>
#include <string>
#include <utility>

#include "jinja/evaluator.h"

namespace patchbay::jinja {

/// A macro as a value, or the body of a call block, which has no name.
class MacroObject : public Object {
 public:
  MacroObject(Evaluator &evaluator, const MacroBody &macro, std::string name,
              std::shared_ptr<Activation> closure)
      : evaluator_(evaluator),
        macro_(macro),
        name_(std::move(name)),
        closure_(std::move(closure)) {}

  [[nodiscard]] std::string_view type_name() const override { return "Macro"; }
  [[nodiscard]] std::string repr(int depth) override;
  [[nodiscard]] bool is_callable() const override { return true; }
  [[nodiscard]] Value call(Runtime &runtime, const Arguments &arguments) override;
  [[nodiscard]] std::optional<Value> attribute(std::string_view name) override;

 private:
  Evaluator &evaluator_;
  const MacroBody &macro_;
  std::string name_;
  std::shared_ptr<Activation> closure_;
};

/// Another activation is the current one for as long as it lives.
class ActivationGuard {
 public:
  ActivationGuard(std::shared_ptr<Activation> &current, std::shared_ptr<Activation> entered)
      : current_(current), outer_(std::exchange(current, std::move(entered))) {}
  ActivationGuard(const ActivationGuard &) = delete;
  ActivationGuard &operator=(const ActivationGuard &) = delete;
  ~ActivationGuard() { current_ = std::move(outer_); }

 private:
  std::shared_ptr<Activation> &current_;
  std::shared_ptr<Activation> outer_;
};

}  // namespace patchbay::jinja
