#include "grammar/schema_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "grammar/json_formats.h"

namespace patchbay {
namespace {

using Json = SchemaDocument::Json;

uint32_t types_named(std::string_view name) {
  if (name == "null") return k_null;
  if (name == "boolean") return k_boolean;
  if (name == "integer") return k_integer;
  if (name == "number") return k_integer | k_fraction;
  if (name == "string") return k_string;
  if (name == "array") return k_array;
  if (name == "object") return k_object;
  return 0;
}

/// Reads the keywords of one schema after the other into the facts.
class FactReader {
 public:
  explicit FactReader(const SchemaDocument &document) : document_(document) {}

  void read(uint32_t schema) {
    schema_ = schema;
    json_ = &document_.json(schema);
    read_types();
    read_values();
    read_numbers();
    read_formats();
    read_strings();
    read_arrays();
    read_objects();
  }

  SchemaFacts finish() && {
    for (const std::string &name : facts_.required) {
      if (std::ranges::find(facts_.names, name) == facts_.names.end()) facts_.names.push_back(name);
    }
    facts_.others_may_come = says_others_ || !has_properties_;
    return std::move(facts_);
  }

 private:
  [[nodiscard]] const Json *find(const char *keyword) const {
    const auto found = json_->find(keyword);
    return found == json_->end() ? nullptr : &*found;
  }

  [[noreturn]] void refuse(const std::string &keyword, const std::string &problem) const {
    document_.refuse(schema_, keyword, problem);
  }

  void read_types() {
    const Json *type = find("type");
    if (type == nullptr) return;
    uint32_t types = 0;
    for (const Json &each : type->is_array() ? *type : Json::array({*type})) {
      const uint32_t named = each.is_string() ? types_named(each.get<std::string>()) : 0;
      if (named == 0) refuse("type", fmt::format("{} is no type", each.dump()));
      types |= named;
    }
    const Json *nullable = find("nullable");
    if (nullable != nullptr && *nullable == true) types |= k_null;
    facts_.types &= types;
  }

  void read_values() {
    if (const Json *value = find("const")) keep_values({value});
    const Json *values = find("enum");
    if (values == nullptr) return;
    if (!values->is_array()) refuse("enum", "enum is a list of values");
    std::vector<const Json *> listed;
    for (const Json &value : *values) listed.push_back(&value);
    keep_values(listed);
  }

  void keep_values(const std::vector<const Json *> &values) {
    std::set<std::string> earlier;
    if (facts_.values) {
      for (const auto &[key, value] : *facts_.values) earlier.insert(key);
    }
    std::vector<std::pair<std::string, const Json *>> kept;
    for (const Json *value : values) {
      std::string key = value_key(*value);
      if (!facts_.values || earlier.contains(key)) kept.emplace_back(std::move(key), value);
    }
    facts_.values = std::move(kept);
  }

  void read_numbers() {
    NumberBounds bounds;
    bounds.min = number("minimum");
    bounds.max = number("maximum");
    tighten(bounds);
    const NumberBounds exclusive{.min = number("exclusiveMinimum"),
                                 .max = number("exclusiveMaximum"),
                                 .excludes_min = true,
                                 .excludes_max = true};
    tighten(exclusive);
    if (const auto multiple = number("multipleOf")) {
      const auto value = multiple->as_int64();
      if (!value || *value <= 0)
        refuse("multipleOf", "only multiples of whole numbers are supported");
      const uint64_t one = facts_.numbers.multiple_of;
      const auto other = static_cast<uint64_t>(*value);
      if (one > k_most_multiple || other > k_most_multiple)
        refuse("multipleOf", "the multiple is too large");
      facts_.numbers.multiple_of = std::lcm(one, other);
      has_multiple_ = true;
    }
    // A multiple of a whole number is whole.
    if (has_multiple_) facts_.types &= ~static_cast<uint32_t>(k_fraction);
  }

  void tighten(const NumberBounds &bounds) {
    NumberBounds &all = facts_.numbers;
    if (bounds.min && (!all.min || *bounds.min > *all.min)) {
      all.min = bounds.min;
      all.excludes_min = bounds.excludes_min;
    } else if (bounds.min && bounds.min == all.min) {
      all.excludes_min |= bounds.excludes_min;
    }
    if (bounds.max && (!all.max || *bounds.max < *all.max)) {
      all.max = bounds.max;
      all.excludes_max = bounds.excludes_max;
    } else if (bounds.max && bounds.max == all.max) {
      all.excludes_max |= bounds.excludes_max;
    }
  }

  [[nodiscard]] std::optional<Decimal> number(const char *keyword) const {
    const Json *value = find(keyword);
    if (value == nullptr) return std::nullopt;
    if (!value->is_number()) refuse(keyword, fmt::format("{} is a number", keyword));
    const auto decimal = to_decimal(*value);
    if (!decimal) refuse(keyword, fmt::format("{} is too large or too small", value->dump()));
    return decimal;
  }

  /// A count, at most one below k_unbounded.
  [[nodiscard]] std::optional<uint32_t> count(const char *keyword) const {
    const auto decimal = number(keyword);
    if (!decimal) return std::nullopt;
    if (decimal->is_negative || !decimal->is_integer())
      refuse(keyword, fmt::format("{} is a whole number, 0 at least", keyword));
    const int64_t value = decimal->as_int64().value_or(grammar::k_unbounded);
    return static_cast<uint32_t>(std::min<int64_t>(value, grammar::k_unbounded - 1));
  }

  void raise(const char *keyword, uint32_t &n_min) const {
    n_min = std::max(n_min, count(keyword).value_or(0));
  }
  void lower(const char *keyword, uint32_t &n_max) const {
    n_max = std::min(n_max, count(keyword).value_or(grammar::k_unbounded));
  }

  void read_formats() {
    const Json *format = find("format");
    if (format == nullptr) return;
    if (!format->is_string()) refuse("format", "format is a string");
    const auto name = format->get<std::string>();
    if (const auto bounds = format_bounds(name)) {
      tighten(*bounds);
    } else if (const auto pattern = format_pattern(name)) {
      facts_.patterns.push_back({schema_, "format", *pattern});
    } else {
      refuse("format", fmt::format("format {} is not supported", format->dump()));
    }
  }

  void read_strings() {
    raise("minLength", facts_.n_chars_min);
    lower("maxLength", facts_.n_chars_max);
    const Json *pattern = find("pattern");
    if (pattern == nullptr) return;
    if (!pattern->is_string()) refuse("pattern", "pattern is a string");
    facts_.patterns.push_back({schema_, "pattern", pattern->get<std::string>()});
  }

  void read_arrays() {
    raise("minItems", facts_.n_items_min);
    lower("maxItems", facts_.n_items_max);
    if (const Json *items = find("items"); items != nullptr && items->is_array())
      refuse("items", "items is one schema; prefixItems lists several");
    const Json *prefix = find("prefixItems");
    if (prefix == nullptr) return;
    if (!prefix->is_array()) refuse("prefixItems", "prefixItems is a list of schemas");
    facts_.n_prefix_items = std::max(facts_.n_prefix_items, prefix->size());
  }

  void read_objects() {
    raise("minProperties", facts_.n_members_min);
    lower("maxProperties", facts_.n_members_max);
    says_others_ |= find("additionalProperties") != nullptr;
    if (const Json *properties = find("properties")) {
      if (!properties->is_object()) refuse("properties", "properties is an object of schemas");
      has_properties_ = true;
      for (const auto &[name, schema] : properties->items()) {
        if (std::ranges::find(facts_.names, name) == facts_.names.end())
          facts_.names.push_back(name);
      }
    }
    const Json *required = find("required");
    if (required == nullptr) return;
    const auto is_string = [](const Json &name) { return name.is_string(); };
    if (!required->is_array() || !std::ranges::all_of(*required, is_string))
      refuse("required", "required is a list of names");
    for (const Json &name : *required) facts_.required.insert(name.get<std::string>());
  }

  // Two of them have a common multiple that fits 64 bits.
  static constexpr uint64_t k_most_multiple = 1'000'000'000;

  const SchemaDocument &document_;
  uint32_t schema_ = 0;
  const Json *json_ = nullptr;
  SchemaFacts facts_;
  bool has_multiple_ = false;
  bool has_properties_ = false;
  bool says_others_ = false;
};

SchemaSet sorted(SchemaSet set) {
  std::ranges::sort(set);
  const auto repeated = std::ranges::unique(set);
  set.erase(repeated.begin(), repeated.end());
  return set;
}

}  // namespace

std::string value_key(const Json &value) {
  if (value.is_number()) {
    const auto decimal = to_decimal(value);
    if (!decimal) return value.dump();
    return (decimal->is_negative ? "-" : "") + decimal->integer + "." + decimal->fraction;
  }
  if (!value.is_structured()) return value.dump();
  std::vector<std::string> members;
  for (const auto &[name, member] : value.items())
    members.push_back((value.is_object() ? Json(name).dump() + ":" : "") + value_key(member));
  if (value.is_object()) std::ranges::sort(members);
  return fmt::format("{}{}", value.is_object() ? '{' : '[', fmt::join(members, ","));
}

uint32_t schema_type_of(const Json &value) {
  if (value.is_null()) return k_null;
  if (value.is_boolean()) return k_boolean;
  if (value.is_number_integer()) return k_integer;
  if (value.is_number_float()) {
    const auto number = value.get<double>();
    return number == std::floor(number) ? k_integer : k_fraction;
  }
  if (value.is_string()) return k_string;
  return value.is_array() ? k_array : k_object;
}

SchemaFacts schema_facts(SchemaDocument &document, const std::vector<uint32_t> &schemas) {
  FactReader reader(document);
  for (const uint32_t schema : schemas) reader.read(schema);
  return std::move(reader).finish();
}

SchemaSet item_set(SchemaDocument &document, const std::vector<uint32_t> &schemas, size_t i_item) {
  SchemaSet set;
  for (const uint32_t schema : schemas) {
    const Json &json = document.json(schema);
    const auto prefix = json.find("prefixItems");
    if (prefix != json.end() && i_item < prefix->size()) {
      set.push_back({document.under(schema, "prefixItems", i_item)});
    } else if (json.contains("items")) {
      set.push_back({document.under(schema, "items")});
    }
  }
  return sorted(std::move(set));
}

SchemaSet member_set(SchemaDocument &document, const std::vector<uint32_t> &schemas,
                     const std::string &name) {
  SchemaSet set;
  for (const uint32_t schema : schemas) {
    const Json &json = document.json(schema);
    const auto properties = json.find("properties");
    if (properties != json.end() && properties->contains(name)) {
      set.push_back({document.under(schema, "properties", name)});
    } else if (json.contains("additionalProperties")) {
      set.push_back({document.under(schema, "additionalProperties")});
    }
  }
  return sorted(std::move(set));
}

SchemaSet other_member_set(SchemaDocument &document, const std::vector<uint32_t> &schemas) {
  SchemaSet set;
  for (const uint32_t schema : schemas) {
    if (document.json(schema).contains("additionalProperties"))
      set.push_back({document.under(schema, "additionalProperties")});
  }
  return sorted(std::move(set));
}

}  // namespace patchbay
