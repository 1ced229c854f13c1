#pragma once

#include <string>
#include <utility>

#include "jinja/error.h"
#include "jinja/evaluator.h"
#include "jinja/limits.h"

namespace patchbay::jinja {

/// One more level of evaluation for as long as it lives.
class Evaluator::DepthGuard {
 public:
  explicit DepthGuard(Evaluator &evaluator) : evaluator_(evaluator) {
    if (evaluator.depth_ >= k_max_eval_depth) {
      throw RenderError(Fault::limit, "maximum recursion depth exceeded");
    }
    ++evaluator.depth_;
  }
  DepthGuard(const DepthGuard &) = delete;
  DepthGuard &operator=(const DepthGuard &) = delete;
  ~DepthGuard() { --evaluator_.depth_; }

 private:
  Evaluator &evaluator_;
};

/// What is written for as long as it lives goes into a text of its own.
class Evaluator::Capture {
 public:
  explicit Capture(Evaluator &evaluator)
      : evaluator_(evaluator), outer_(std::exchange(evaluator.out_, &text_)) {}
  Capture(const Capture &) = delete;
  Capture &operator=(const Capture &) = delete;
  ~Capture() { evaluator_.out_ = outer_; }

  [[nodiscard]] Value take() { return Value::string(std::move(text_)); }

 private:
  Evaluator &evaluator_;
  std::string text_;
  std::string *outer_;
};

}  // namespace patchbay::jinja
