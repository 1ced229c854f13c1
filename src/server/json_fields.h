#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "server/api_error.h"
#include "server/json_text.h"

namespace patchbay {

/// Reads typed members of a request's object. null and a missing member are the same: nothing. What
/// has another type, or lies outside of its bounds, is remembered as the first error, with the
/// member's name; the caller reads everything and asks once. Unknown members are nobody's business.
class JsonFields {
 public:
  /// `value` outlives the object. Anything but an object is an error.
  explicit JsonFields(const Json &value, std::string prefix = {});

  [[nodiscard]] std::optional<std::string> text(const char *name);
  [[nodiscard]] std::optional<bool> flag(const char *name);
  /// Whole numbers only: 1.5 is refused, 2.0 is taken as some clients send it.
  [[nodiscard]] std::optional<int64_t> integer(const char *name, int64_t least, int64_t most);
  /// Finite ones only.
  [[nodiscard]] std::optional<double> number(const char *name, double least, double most);
  /// One string or an array of strings; empty when there is none.
  [[nodiscard]] std::vector<std::string> texts(const char *name);
  /// The member itself, of whatever type; null when there is none.
  [[nodiscard]] const Json *any(const char *name) const;
  [[nodiscard]] const Json *object(const char *name);
  [[nodiscard]] const Json *array(const char *name);

  /// Remembers an error about a member, unless there is one already.
  void refuse(const std::string &name, const std::string &wanted, const Json &found);
  /// Refuses those of the members that ask for something, where doing without it would be a wrong
  /// answer. Null, false, 0 and what is empty ask for nothing.
  void refuse_unsupported(std::initializer_list<const char *> names);
  /// The same with one that was found elsewhere.
  void take_error(const ApiError &error);
  /// Null: none.
  [[nodiscard]] const ApiError *error() const { return is_wrong_ ? &error_ : nullptr; }

 private:
  const Json *value_;
  std::string prefix_;
  bool is_wrong_ = false;
  ApiError error_;
};

/// "a string", "an object": what a value is, for messages.
[[nodiscard]] std::string describe(const Json &value);

}  // namespace patchbay
