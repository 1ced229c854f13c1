#pragma once

#include <stdexcept>
#include <string>

namespace patchbay::jinja {

/// Why a template cannot go on, as far as a template can tell the reasons apart: some filters take
/// another way for one of them.
enum class Fault {
  type,       ///< an operation that this kind of value does not have
  value,      ///< a value that the operation cannot use, such as int("x")
  lookup,     ///< an index or key that is not there
  overflow,   ///< a number too large
  undefined,  ///< an undefined value was used
  raised,     ///< the template called raise_exception
  limit,      ///< it computes too long, too deep or too much
  other,
};

/// Ends one rendering; caught where rendering begins and never seen outside of it.
class RenderError : public std::runtime_error {
 public:
  RenderError(Fault fault, const std::string &message)
      : std::runtime_error(message), fault_(fault) {}

  [[nodiscard]] Fault fault() const { return fault_; }

 private:
  Fault fault_;
};

[[noreturn]] inline void type_error(const std::string &message) {
  throw RenderError(Fault::type, message);
}

[[noreturn]] inline void value_error(const std::string &message) {
  throw RenderError(Fault::value, message);
}

}  // namespace patchbay::jinja
