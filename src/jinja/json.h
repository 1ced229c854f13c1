#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "jinja/value.h"

namespace patchbay::jinja {

/// A value of JSON as json.loads would give it. Throws RenderError: nested too deeply, too large,
/// text that is not UTF-8.
[[nodiscard]] Value from_json(const nlohmann::ordered_json &json);

/// The options of json.dumps that transformers' tojson takes.
struct JsonStyle {
  bool ensure_ascii = false;
  std::optional<std::string> indent;  ///< set: one item a line, each level indented by it
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
};

/// json.dumps(value). Throws RenderError for what JSON cannot say.
[[nodiscard]] std::string to_json(const Value &value, const JsonStyle &style);

}  // namespace patchbay::jinja
