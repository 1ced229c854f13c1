#include "grammar/schema_check.h"

#include <algorithm>

#include "base/utf8.h"
#include "grammar/schema_facts.h"

namespace patchbay {
namespace {

using Json = SchemaDocument::Json;

// Deeper members are not looked at for a difference.
constexpr int k_most_depth = 8;

bool number_is_valid(const NumberBounds &bounds, const Json &value) {
  const auto number = to_decimal(value);
  if (!number) return false;
  if (bounds.min && (*number < *bounds.min || (bounds.excludes_min && *number == *bounds.min)))
    return false;
  if (bounds.max && (*number > *bounds.max || (bounds.excludes_max && *number == *bounds.max)))
    return false;
  if (bounds.multiple_of == 1) return true;
  const auto integer = number->as_int64();
  return integer && *integer % static_cast<int64_t>(bounds.multiple_of) == 0;
}

uint32_t n_chars(const std::string &text) {
  return static_cast<uint32_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; }));
}

bool within(size_t n, uint32_t n_min, uint32_t n_max) { return n >= n_min && n <= n_max; }

bool string_is_valid(SchemaDocument &document, const SchemaFacts &facts, const std::string &text) {
  return within(n_chars(text), facts.n_chars_min, facts.n_chars_max) &&
         std::ranges::all_of(facts.patterns, [&](const SchemaPattern &pattern) {
           const CharNetwork &network =
               document.pattern(pattern.schema, pattern.keyword, pattern.pattern);
           document.spend(network.n_edges() * (text.size() + 1));
           return network.matches(text);
         });
}

bool array_is_valid(SchemaDocument &document, const std::vector<uint32_t> &schemas,
                    const SchemaFacts &facts, const Json &array) {
  if (!within(array.size(), facts.n_items_min, facts.n_items_max)) return false;
  for (size_t i = 0; i < array.size(); ++i) {
    if (!is_valid(document, item_set(document, schemas, i), array[i])) return false;
  }
  return true;
}

bool object_is_valid(SchemaDocument &document, const std::vector<uint32_t> &schemas,
                     const SchemaFacts &facts, const Json &object) {
  if (!within(object.size(), facts.n_members_min, facts.n_members_max)) return false;
  for (const std::string &name : facts.required) {
    if (!object.contains(name)) return false;
  }
  for (const auto &[name, member] : object.items()) {
    if (!is_valid(document, member_set(document, schemas, name), member)) return false;
  }
  return true;
}

bool is_listed(const SchemaFacts &facts, const Json &value) {
  if (!facts.values) return true;
  const std::string key = value_key(value);
  return std::ranges::any_of(*facts.values,
                             [&](const auto &listed) { return listed.first == key; });
}

bool bounds_are_disjoint(const NumberBounds &one, const NumberBounds &other) {
  const auto below = [](const NumberBounds &low, const NumberBounds &high) {
    if (!low.max || !high.min) return false;
    return *low.max < *high.min ||
           (*low.max == *high.min && (low.excludes_max || high.excludes_min));
  };
  return below(one, other) || below(other, one);
}

class Disjointness {
 public:
  explicit Disjointness(SchemaDocument &document) : document_(document) {}

  bool show(const SchemaSet &one, const SchemaSet &other, int depth) {
    if (depth > k_most_depth) return false;
    const auto first = document_.expand(one);
    const auto second = document_.expand(other);
    if (first.never || second.never) return true;
    return own_keywords_differ(first.schemas, second.schemas, depth) ||
           some_group_differs(first, other, depth) || some_group_differs(second, one, depth);
  }

 private:
  /// One of a group has to hold, so it is enough if none of them can.
  bool some_group_differs(const SchemaDocument::Expansion &expansion, const SchemaSet &other,
                          int depth) {
    return std::ranges::any_of(expansion.groups, [&](const auto &group) {
      return std::ranges::all_of(group.options, [&](uint32_t option) {
        SchemaSet both{{option}};
        for (const uint32_t schema : expansion.schemas) both.push_back({schema, true});
        return show(both, other, depth + 1);
      });
    });
  }

  bool own_keywords_differ(const std::vector<uint32_t> &one, const std::vector<uint32_t> &other,
                           int depth) {
    const SchemaFacts first = schema_facts(document_, one);
    const SchemaFacts second = schema_facts(document_, other);
    const uint32_t types = first.types & second.types;
    if (types == 0 || no_value_fits(first, second, other) || no_value_fits(second, first, one))
      return true;
    // Every type that both have has to differ.
    const auto differ = [&](uint32_t of_types, bool shown) {
      return (types & of_types) == 0 || shown;
    };
    const auto apart = [](uint32_t min_one, uint32_t max_one, uint32_t min_other,
                          uint32_t max_other) {
      return max_one < min_other || max_other < min_one;
    };
    return differ(k_null | k_boolean, false) &&
           differ(k_integer | k_fraction, bounds_are_disjoint(first.numbers, second.numbers)) &&
           differ(k_string, apart(first.n_chars_min, first.n_chars_max, second.n_chars_min,
                                  second.n_chars_max)) &&
           differ(k_array, apart(first.n_items_min, first.n_items_max, second.n_items_min,
                                 second.n_items_max)) &&
           ((types & k_object) == 0 || members_differ(first, one, second, other, depth));
  }

  /// The other's schemas have none of the listed values.
  bool no_value_fits(const SchemaFacts &facts, const SchemaFacts &others,
                     const std::vector<uint32_t> &other) {
    if (!facts.values) return false;
    std::set<std::string> keys;
    if (others.values) {
      for (const auto &[key, value] : *others.values) keys.insert(key);
    }
    return std::ranges::none_of(*facts.values, [&](const auto &listed) {
      return (!others.values || keys.contains(listed.first)) &&
             is_valid_unlisted(document_, other, others, *listed.second);
    });
  }

  bool members_differ(const SchemaFacts &first, const std::vector<uint32_t> &one,
                      const SchemaFacts &second, const std::vector<uint32_t> &other, int depth) {
    std::set<std::string> present = first.required;
    present.insert(second.required.begin(), second.required.end());
    return std::ranges::any_of(present, [&](const std::string &name) {
      return show(member_set(document_, one, name), member_set(document_, other, name), depth + 1);
    });
  }

  SchemaDocument &document_;
};

}  // namespace

bool is_valid_unlisted(SchemaDocument &document, const std::vector<uint32_t> &schemas,
                       const SchemaFacts &facts, const Json &value) {
  if ((facts.types & schema_type_of(value)) == 0) return false;
  if (value.is_number()) return number_is_valid(facts.numbers, value);
  if (value.is_string())
    return string_is_valid(document, facts, value.get_ref<const std::string &>());
  if (value.is_array()) return array_is_valid(document, schemas, facts, value);
  return !value.is_object() || object_is_valid(document, schemas, facts, value);
}

bool is_valid(SchemaDocument &document, const SchemaSet &set, const Json &value) {
  const auto expansion = document.expand(set);
  if (expansion.never) return false;
  const SchemaFacts facts = schema_facts(document, expansion.schemas);
  if (!is_listed(facts, value) || !is_valid_unlisted(document, expansion.schemas, facts, value))
    return false;
  return std::ranges::all_of(expansion.groups, [&](const auto &group) {
    const auto n_valid = std::ranges::count_if(
        group.options, [&](uint32_t option) { return is_valid(document, {{option}}, value); });
    return group.is_one_of ? n_valid == 1 : n_valid > 0;
  });
}

bool are_disjoint(SchemaDocument &document, const SchemaSet &one, const SchemaSet &other) {
  return Disjointness(document).show(one, other, 0);
}

}  // namespace patchbay
