#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "grammar/char_network.h"
#include "grammar/json_number_grammar.h"
#include "grammar/schema_document.h"

namespace patchbay {

/// The types of JSON values, one bit each. An integer such as 1.0 is an integer.
enum SchemaType : uint32_t {
  k_null = 1U << 0U,
  k_boolean = 1U << 1U,
  k_integer = 1U << 2U,
  k_fraction = 1U << 3U,  ///< a number that is no integer
  k_string = 1U << 4U,
  k_array = 1U << 5U,
  k_object = 1U << 6U,
  k_every_type = (1U << 7U) - 1,
};

/// The bit of a value's type.
[[nodiscard]] uint32_t schema_type_of(const nlohmann::ordered_json &value);

/// Of values that are equal to a schema the same text: 1 and 1.0 are, and the order of members is
/// nothing.
[[nodiscard]] std::string value_key(const nlohmann::ordered_json &value);

/// A regular expression that a string has to match, and the keyword that says so.
struct SchemaPattern {
  uint32_t schema = 0;
  std::string keyword;
  std::string pattern;
};

/// What the own keywords of several schemas say together, but what they say of the values inside,
/// which item_set() and member_set() tell.
struct SchemaFacts {
  uint32_t types = k_every_type;
  /// Of enum and const, by value_key(), in their order.
  std::optional<std::vector<std::pair<std::string, const nlohmann::ordered_json *>>> values;
  NumberBounds numbers;
  uint32_t n_chars_min = 0;
  uint32_t n_chars_max = grammar::k_unbounded;
  std::vector<SchemaPattern> patterns;  ///< of pattern and format
  uint32_t n_items_min = 0;
  uint32_t n_items_max = grammar::k_unbounded;
  size_t n_prefix_items = 0;       ///< items that may have a schema of their own
  std::vector<std::string> names;  ///< of properties, in their order; required ones included
  std::set<std::string> required;
  /// additionalProperties is said, or there are no properties: others may be written.
  bool others_may_come = false;
  uint32_t n_members_min = 0;
  uint32_t n_members_max = grammar::k_unbounded;
};

// Of expanded schemas. Each throws SchemaRefusal for keywords that are not of their form or that
// are not supported as they stand.

[[nodiscard]] SchemaFacts schema_facts(SchemaDocument &document,
                                       const std::vector<uint32_t> &schemas);
/// What an array's item has to be, from 0 on.
[[nodiscard]] SchemaSet item_set(SchemaDocument &document, const std::vector<uint32_t> &schemas,
                                 size_t i_item);
/// What an object's member of this name has to be.
[[nodiscard]] SchemaSet member_set(SchemaDocument &document, const std::vector<uint32_t> &schemas,
                                   const std::string &name);
/// What members of other names than SchemaFacts::names have to be.
[[nodiscard]] SchemaSet other_member_set(SchemaDocument &document,
                                         const std::vector<uint32_t> &schemas);

}  // namespace patchbay
