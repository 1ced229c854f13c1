#pragma once

#include <stdexcept>
#include <string>

namespace patchbay::jinja {

/// A template that cannot be read. Does not leave ChatTemplate::parse, which makes it a LoadError.
class SyntaxError : public std::runtime_error {
 public:
  SyntaxError(int line, const std::string &message) : std::runtime_error(message), line_(line) {}

  [[nodiscard]] int line() const { return line_; }

 private:
  int line_;
};

}  // namespace patchbay::jinja
