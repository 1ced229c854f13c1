#pragma once

#include <vector>

#include "jinja/value.h"

namespace patchbay::jinja {

/// What filters take as `attribute`: "a.0.b" is looked up part by part.
class AttributePath {
 public:
  /// None: the value itself.
  explicit AttributePath(const Value &attribute);

  /// `otherwise`: in place of what is undefined on the way; may be null. Throws RenderError.
  [[nodiscard]] Value of(const Value &value, const Value *otherwise = nullptr) const;

 private:
  std::vector<Value> parts_;
};

/// Text in lower case and anything else as it is: how filters compare without regard to case.
[[nodiscard]] Value without_case(const Value &value);

}  // namespace patchbay::jinja
