#include "grammar/schema_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <set>

#include "base/read_json.h"
#include "grammar/json_pattern.h"

namespace patchbay {
namespace {

using Json = SchemaDocument::Json;

constexpr size_t k_most_bytes = size_t{1} << 20U;
// nlohmann's destructor, copy and dump recurse.
constexpr size_t k_most_depth = 64;
// An ordered object looks keys up one by one.
constexpr size_t k_most_keys = 10'000;
// Schemas within schemas by $ref, allOf, anyOf: looking at them recurses.
constexpr size_t k_most_nested = 200;

/// Keywords that say what is valid by naming other schemas.
constexpr std::array<std::string_view, 4> k_joining{"$ref", "allOf", "anyOf", "oneOf"};

/// Those that say it themselves.
constexpr std::array<std::string_view, 22> k_own{"type",
                                                 "nullable",
                                                 "enum",
                                                 "const",
                                                 "properties",
                                                 "required",
                                                 "items",
                                                 "minItems",
                                                 "maxItems",
                                                 "pattern",
                                                 "additionalProperties",
                                                 "format",
                                                 "prefixItems",
                                                 "minLength",
                                                 "minimum",
                                                 "maximum",
                                                 "exclusiveMinimum",
                                                 "exclusiveMaximum",
                                                 "maxLength",
                                                 "multipleOf",
                                                 "minProperties",
                                                 "maxProperties"};

/// Those that say nothing about what is valid.
constexpr std::array<std::string_view, 16> k_annotations{
    "$defs",        "definitions", "title",      "description",     "default",
    "examples",     "example",     "deprecated", "readOnly",        "writeOnly",
    "$comment",     "$schema",     "$id",        "contentEncoding", "contentMediaType",
    "contentSchema"};

Json parse(std::string_view text) {
  if (text.size() > k_most_bytes) {
    throw SchemaRefusal(
        "#", fmt::format("the schema has {} bytes, more than {}", text.size(), k_most_bytes));
  }
  auto read = read_json(text, {.n_levels = k_most_depth, .n_keys = k_most_keys});
  if (read) return *std::move(read);
  switch (read.error().fault) {
    case JsonFault::too_deep:
      throw SchemaRefusal("#", fmt::format("the schema is more than {} deep", k_most_depth));
    case JsonFault::too_many_keys:
      throw SchemaRefusal("#", fmt::format("the schema has more than {} keys", k_most_keys));
    case JsonFault::syntax:
      break;
  }
  throw SchemaRefusal("#", "the schema is not valid JSON: " + read.error().message);
}

/// A JSON pointer as it stands in a URI, with %XX for some of its bytes.
std::string unquoted(const std::string &fragment) {
  std::string text;
  for (size_t i = 0; i < fragment.size(); ++i) {
    uint8_t byte = 0;
    const char *digits = fragment.data() + i + 1;
    if (fragment[i] == '%' && i + 2 < fragment.size() &&
        std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2) {
      text += static_cast<char>(byte);
      i += 2;
    } else {
      text += fragment[i];
    }
  }
  return text;
}

std::string escaped(const std::string &name) {
  std::string escaped;
  for (const char c : name) escaped += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return escaped;
}

}  // namespace

SchemaDocument::SchemaDocument(std::string_view text) : json_(parse(text)) {}

uint32_t SchemaDocument::schema_at(const Json &json, const std::string &pointer) {
  if (const auto known = number_of_.find(&json); known != number_of_.end()) return known->second;
  std::string text = json.dump();
  spend(text.size());
  const auto [equal, is_new] =
      number_of_text_.try_emplace(std::move(text), static_cast<uint32_t>(schemas_.size()));
  number_of_[&json] = equal->second;
  if (is_new) {
    schemas_.push_back({.json = &json, .pointer = pointer});
    check_keywords(equal->second);
  }
  return equal->second;
}

void SchemaDocument::check_keywords(uint32_t schema) {
  const Json &value = json(schema);
  if (value.is_boolean()) return;
  if (!value.is_object()) refuse(schema, "a schema is an object, true or false");
  const auto is_one_of = [](const auto &list, const std::string &key) {
    return std::ranges::find(list, key) != list.end();
  };
  for (const auto &[key, member] : value.items()) {
    const bool is_own = is_one_of(k_own, key);
    schemas_[schema].has_own_keywords |= is_own;
    const bool says_nothing = is_one_of(k_annotations, key) || key.starts_with("x-") ||
                              (key == "uniqueItems" && member == false);
    if (key == "$id" && schema != 0) refuse(schema, key, "$id is supported at the root only");
    if (!is_own && !says_nothing && !is_one_of(k_joining, key))
      refuse(schema, key, fmt::format("{} is not supported", key));
  }
}

uint32_t SchemaDocument::under(uint32_t schema, const std::string &keyword) {
  return schema_at(json(schema).at(keyword), pointer(schema) + "/" + keyword);
}

uint32_t SchemaDocument::under(uint32_t schema, const std::string &keyword,
                               const std::string &member) {
  return schema_at(json(schema).at(keyword).at(member),
                   pointer(schema) + "/" + keyword + "/" + escaped(member));
}

uint32_t SchemaDocument::under(uint32_t schema, const std::string &keyword, size_t element) {
  return schema_at(json(schema).at(keyword).at(element),
                   fmt::format("{}/{}/{}", pointer(schema), keyword, element));
}

/// Where a $ref leads.
uint32_t SchemaDocument::follow(uint32_t schema) {
  const Json &ref = json(schema).at("$ref");
  if (!ref.is_string()) refuse(schema, "$ref", "a reference is a string");
  const auto target = ref.get<std::string>();
  if (!target.starts_with('#') || (target.size() > 1 && target[1] != '/'))
    refuse(schema, "$ref", fmt::format("'{}' does not lead into this schema by #/...", target));
  const Json *found = nullptr;
  try {
    found = &json_.at(Json::json_pointer(unquoted(target.substr(1))));
  } catch (const Json::exception &) {
    refuse(schema, "$ref", fmt::format("'{}' leads nowhere", target));
  }
  return schema_at(*found, target);
}

const CharNetwork &SchemaDocument::pattern(uint32_t schema, const std::string &keyword,
                                           const std::string &pattern) {
  if (const auto known = networks_.find(pattern); known != networks_.end()) return known->second;
  auto network = parse_pattern(pattern);
  if (!network) refuse(schema, keyword, network.error().message);
  spend(10 * network->n_edges());
  return networks_.emplace(pattern, *std::move(network)).first->second;
}

void SchemaDocument::spend(uint64_t n_steps) {
  constexpr uint64_t k_most_steps = 100'000'000;
  work_ += n_steps;
  if (work_ > k_most_steps) throw SchemaRefusal("#", "the schema is too complicated");
}

/// Collects what a set says, depth first.
class SchemaDocument::Expander {
 public:
  explicit Expander(SchemaDocument &document) : document_(document) {}

  void add(const SchemaPart &part) {
    if (path_.contains(part.schema) && !part.own_only)
      document_.refuse(part.schema, "the schema refers to itself");
    if (!seen_.insert(part).second) return;
    if (path_.size() > k_most_nested) document_.refuse(part.schema, "schemas refer too deeply");
    const Json &json = document_.json(part.schema);
    if (json.is_boolean()) {
      expansion_.never |= !json.get<bool>();
      return;
    }
    schemas_.insert(part.schema);
    if (part.own_only) return;
    path_.insert(part.schema);
    if (json.contains("$ref")) add({document_.follow(part.schema)});
    for (const uint32_t each : list(part.schema, "allOf")) add({each});
    add_group(part.schema, "anyOf", false);
    add_group(part.schema, "oneOf", true);
    path_.erase(part.schema);
  }

  Expansion finish() && {
    expansion_.schemas.assign(schemas_.begin(), schemas_.end());
    return std::move(expansion_);
  }

 private:
  std::vector<uint32_t> list(uint32_t schema, const std::string &keyword) {
    const Json &json = document_.json(schema);
    if (!json.contains(keyword)) return {};
    const Json &value = json.at(keyword);
    if (!value.is_array() || value.empty())
      document_.refuse(schema, keyword, keyword + " is a list of schemas");
    std::vector<uint32_t> schemas;
    for (size_t i = 0; i < value.size(); ++i)
      schemas.push_back(document_.under(schema, keyword, i));
    return schemas;
  }

  void add_group(uint32_t schema, const std::string &keyword, bool is_one_of) {
    auto options = list(schema, keyword);
    if (!options.empty()) expansion_.groups.push_back({schema, is_one_of, std::move(options)});
  }

  SchemaDocument &document_;
  Expansion expansion_;
  std::set<uint32_t> schemas_;
  std::set<SchemaPart> seen_;
  std::set<uint32_t> path_;
};

SchemaDocument::Expansion SchemaDocument::expand(const SchemaSet &set) {
  constexpr uint64_t k_steps = 500;  // of looking at a small one and of reading what it says
  spend(k_steps);
  Expander expander(*this);
  for (const SchemaPart &part : set) expander.add(part);
  return std::move(expander).finish();
}

}  // namespace patchbay
