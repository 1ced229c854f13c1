#include "jinja/attribute_path.h"

#include "jinja/attributes.h"
#include "jinja/case.h"
#include "jinja/number.h"
#include "jinja/text.h"

namespace patchbay::jinja {

AttributePath::AttributePath(const Value &attribute) {
  if (attribute.is_none()) return;
  const std::string *path = attribute.as_string();
  if (path == nullptr) {
    parts_.push_back(attribute);
    return;
  }
  for (const std::string_view part : split_at(*path, ".", -1)) {
    const bool is_index =
        !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
    parts_.push_back(is_index ? Value::integer(*parse_int(part))
                              : Value::string(std::string(part)));
  }
}

Value AttributePath::of(const Value &value, const Value *otherwise) const {
  Value found = value;
  for (const Value &part : parts_) {
    found = get_item(found, part);
    if (otherwise != nullptr && !otherwise->is_none() && found.is_undefined()) found = *otherwise;
  }
  return found;
}

Value without_case(const Value &value) {
  if (!value.is_string()) return value;
  return Value::string(lower(*value.as_string()), value.is_markup());
}

}  // namespace patchbay::jinja
