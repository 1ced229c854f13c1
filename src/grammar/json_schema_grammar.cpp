#include "grammar/json_schema_grammar.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "grammar/grammar_network.h"
#include "grammar/json_number_grammar.h"
#include "grammar/json_text_grammar.h"
#include "grammar/schema_check.h"
#include "grammar/schema_document.h"
#include "grammar/schema_facts.h"

namespace patchbay {
namespace {

using grammar::Expr;
using Schemas = std::vector<uint32_t>;

// Every option of one anyOf with every one of another: a rule for each.
constexpr size_t k_most_combinations = 1000;
constexpr size_t k_most_rules = 20'000;
constexpr size_t k_most_exclusive = 100;  // each is held against each
constexpr uint32_t k_most_items = 10'000;
constexpr uint32_t k_most_chars = 100'000;

template <class... Parts>
Expr join(Parts... parts) {
  std::vector<Expr> list;
  (list.push_back(std::move(parts)), ...);
  return grammar::series(std::move(list));
}

/// Makes a rule for each set of schemas that some value has to be valid under.
class SchemaCompiler {
 public:
  explicit SchemaCompiler(std::string_view text) : document_(text) {}

  grammar::Rules compile() {
    any_char_ = static_cast<uint32_t>(rules_.rules.size());
    rules_.rules.push_back({.name = "character", .expr = json_any_char()});
    rules_.root = rule_of({{document_.root()}});
    for (size_t i = 0; i < waiting_.size(); ++i) {
      // The rules may move while one is made.
      const auto [rule, set] = waiting_[i];
      Expr expr = expr_of(set);
      rules_.rules[rule].expr = std::move(expr);
    }
    return std::move(rules_);
  }

 private:
  uint32_t rule_of(SchemaSet set) {
    std::ranges::sort(set);
    const auto repeated = std::ranges::unique(set);
    set.erase(repeated.begin(), repeated.end());
    const auto [known, is_new] =
        rule_of_.try_emplace(set, static_cast<uint32_t>(rules_.rules.size()));
    if (is_new) {
      const std::string name = set.empty() ? "any value" : document_.pointer(set.front().schema);
      if (rules_.rules.size() > k_most_rules)
        throw SchemaRefusal(name, fmt::format("the schema needs more than {} rules", k_most_rules));
      rules_.rules.push_back({.name = name, .expr = {}});
      waiting_.emplace_back(known->second, std::move(set));
    }
    return known->second;
  }

  Expr call(SchemaSet set) { return grammar::call(rule_of(std::move(set))); }

  Expr expr_of(const SchemaSet &set) {
    const auto expansion = document_.expand(set);
    if (expansion.never) return grammar::choice({});
    if (!expansion.groups.empty()) return combinations_of(expansion);
    return value_of(expansion.schemas);
  }

  /// One option of each group, in every combination.
  Expr combinations_of(const SchemaDocument::Expansion &expansion) {
    SchemaSet own;
    for (const uint32_t schema : expansion.schemas) {
      if (document_.has_own_keywords(schema)) own.push_back({schema, true});
    }
    std::vector<SchemaSet> sets{own};
    for (const auto &group : expansion.groups) {
      if (group.is_one_of) check_one_of(group);
      if (sets.size() * group.options.size() > k_most_combinations)
        document_.refuse(group.schema, "there are too many combinations of anyOf and oneOf");
      std::vector<SchemaSet> longer;
      for (const SchemaSet &each : sets) {
        for (const uint32_t option : group.options) {
          longer.push_back(each);
          longer.back().push_back({option});
        }
      }
      sets = std::move(longer);
    }
    std::vector<Expr> parts;
    for (SchemaSet &each : sets) parts.push_back(call(std::move(each)));
    return grammar::choice(std::move(parts));
  }

  /// oneOf is anyOf where no two options can hold at once.
  void check_one_of(const SchemaDocument::Group &group) {
    if (group.options.size() > k_most_exclusive) {
      document_.refuse(group.schema, "oneOf",
                       fmt::format("more than {} options are not supported", k_most_exclusive));
    }
    for (size_t i = 0; i < group.options.size(); ++i) {
      for (size_t j = i + 1; j < group.options.size(); ++j) {
        if (are_disjoint(document_, {{group.options[i]}}, {{group.options[j]}})) continue;
        document_.refuse(
            group.schema, "oneOf",
            fmt::format("options {} and {} may hold at once: say anyOf, or give them a required "
                        "property of different constants",
                        i, j));
      }
    }
  }

  /// A value by the own keywords of some schemas.
  Expr value_of(const Schemas &schemas) {
    const SchemaFacts facts = schema_facts(document_, schemas);
    if (facts.values) return listed(facts, schemas);
    std::vector<Expr> kinds;
    if ((facts.types & k_object) != 0) kinds.push_back(object_of(facts, schemas));
    if ((facts.types & k_array) != 0) kinds.push_back(array_of(facts, schemas));
    if ((facts.types & k_string) != 0) kinds.push_back(string_of(facts, schemas));
    if ((facts.types & k_integer) != 0) kinds.push_back(number_of(facts, schemas));
    if ((facts.types & k_boolean) != 0) {
      kinds.push_back(grammar::text("true"));
      kinds.push_back(grammar::text("false"));
    }
    if ((facts.types & k_null) != 0) kinds.push_back(grammar::text("null"));
    return grammar::choice(std::move(kinds));
  }

  /// Those values of enum and const that everything else allows.
  Expr listed(const SchemaFacts &facts, const Schemas &schemas) {
    std::vector<Expr> values;
    if (facts.values) {
      for (const auto &[key, value] : *facts.values) {
        if (is_valid_unlisted(document_, schemas, facts, *value))
          values.push_back(json_exact_value(*value));
      }
    }
    return grammar::choice(std::move(values));
  }

  Expr number_of(const SchemaFacts &facts, const Schemas &schemas) {
    auto numbers = (facts.types & k_fraction) != 0 ? json_numbers(facts.numbers)
                                                   : json_integers(facts.numbers);
    if (!numbers) refuse(schemas, numbers.error().message);
    constexpr uint64_t k_edges_per_remainder = 180;
    grow(facts.numbers.multiple_of * k_edges_per_remainder);
    return *std::move(numbers);
  }

  Expr string_of(const SchemaFacts &facts, const Schemas &schemas) {
    const uint32_t n_max = facts.n_chars_max;
    if (n_max < facts.n_chars_min) return grammar::choice({});
    if (facts.n_chars_min > k_most_chars || (n_max > k_most_chars && n_max != grammar::k_unbounded))
      refuse(schemas, fmt::format("lengths above {} are not supported", k_most_chars));
    if (facts.patterns.empty()) {
      return join(grammar::text("\""),
                  grammar::repeat(grammar::call(any_char_), facts.n_chars_min, n_max),
                  grammar::text("\""));
    }
    std::optional<CharNetwork> text;
    for (const auto &[schema, keyword, pattern] : facts.patterns) {
      const CharNetwork &next = document_.pattern(schema, keyword, pattern);
      text = text ? intersection(*text, next) : next;
      if (!text) break;
    }
    if (text && (facts.n_chars_min > 0 || n_max != grammar::k_unbounded)) {
      const auto lengths = texts_of_length(facts.n_chars_min, n_max);
      text = lengths ? intersection(*text, *lengths) : std::nullopt;
    }
    if (!text) refuse(schemas, "pattern, format and lengths are too large together");
    grow(text->n_edges());
    return json_string_of(*text);
  }

  /// Node i: i items are read. Once every later item is like the last, there is one node for all.
  Expr array_of(const SchemaFacts &facts, const Schemas &schemas) {
    const uint32_t n_max = facts.n_items_max;
    if (n_max < facts.n_items_min) return grammar::choice({});
    const bool is_open = n_max == grammar::k_unbounded;
    const auto n_prefix = static_cast<uint32_t>(facts.n_prefix_items);
    const uint32_t n_items = is_open ? std::max({n_prefix, facts.n_items_min, 1U}) : n_max;
    if (n_items > k_most_items)
      refuse(schemas, fmt::format("more than {} items are not supported", k_most_items));
    grow(n_items);
    grammar::Network items{.n_nodes = n_items + 1};
    for (uint32_t i = 0; i <= n_items; ++i) {
      if (i >= facts.n_items_min) items.ends.push_back(i);
      if (i == n_items && !is_open) break;
      Expr item = call(item_set(document_, schemas, i));
      if (i > 0) item = join(json_separator(','), std::move(item));
      items.add(i, std::min(i + 1, n_items), std::move(item));
    }
    return join(grammar::text("["), Expr{std::move(items)}, grammar::text("]"));
  }

  Expr object_of(const SchemaFacts &facts, const Schemas &schemas);

  /// Counts the edges of networks. What is too large is refused before it is made into a grammar.
  void grow(uint64_t n_edges) {
    n_edges_ += n_edges;
    if (n_edges_ > k_most_grammar_edges) throw SchemaRefusal("#", "the schema is too large");
  }

  [[noreturn]] void refuse(const Schemas &schemas, const std::string &problem) const {
    throw SchemaRefusal(schemas.empty() ? "#" : document_.pointer(schemas.front()), problem);
  }

  SchemaDocument document_;
  grammar::Rules rules_;
  uint32_t any_char_ = 0;  // rule
  uint64_t n_edges_ = 0;
  std::map<SchemaSet, uint32_t> rule_of_;
  std::vector<std::pair<uint32_t, SchemaSet>> waiting_;  // rules whose expressions are to be made
};

/// The members of an object: the named ones in their order, each at most once, then others. A node
/// is a place in that order together with how many members there are, counted as far as it matters.
class MemberNetwork {
 public:
  explicit MemberNetwork(const SchemaFacts &facts)
      : facts_(facts), n_names_(static_cast<uint32_t>(facts.names.size())) {
    counts_exactly_ = facts.n_members_max != grammar::k_unbounded;
    // Whether there is one decides about commas.
    n_counted_ = counts_exactly_ ? std::min(facts.n_members_max, n_names_ + k_most_others)
                                 : std::max(facts.n_members_min, 1U);
    n_counted_ = std::min(n_counted_, n_names_ + k_most_others);
    // Two places more than names: all of these passed, and others begun.
    network_.n_nodes = (n_names_ + 2) * (n_counted_ + 1);
  }

  /// REQUIRES: called for the names in their order, `member` being name and value.
  void add_name(uint32_t i_name, bool is_required, const Expr &member) {
    for (uint32_t n = 0; n <= n_counted_; ++n) {
      if (!is_required) add(node(i_name, n), node(i_name + 1, n), grammar::series({}));
      add_member(node(i_name, n), i_name + 1, n, member);
    }
  }

  /// Other members may have the same name twice, so only the first of them counts towards the
  /// least number.
  void add_others(const Expr &member) {
    for (uint32_t n = 0; n <= n_counted_; ++n) {
      if (n + 1 >= facts_.n_members_min) add_member(node(n_names_, n), n_names_ + 1, n, member);
      add_member(node(n_names_ + 1, n), n_names_ + 1, n, member);
    }
  }

  Expr finish() && {
    for (uint32_t n = 0; n <= n_counted_; ++n) {
      if (n >= facts_.n_members_min) network_.ends.push_back(node(n_names_, n));
      network_.ends.push_back(node(n_names_ + 1, n));
    }
    return {std::move(network_)};
  }

  [[nodiscard]] uint32_t n_nodes() const { return network_.n_nodes; }

  // Members beyond the named ones that are counted.
  static constexpr uint32_t k_most_others = 1000;

 private:
  [[nodiscard]] uint32_t node(uint32_t place, uint32_t n_members) const {
    return place * (n_counted_ + 1) + n_members;
  }

  void add_member(uint32_t from, uint32_t to_place, uint32_t n_before, const Expr &member) {
    if (counts_exactly_ && n_before == n_counted_) return;
    const uint32_t to = node(to_place, std::min(n_before + 1, n_counted_));
    add(from, to, n_before == 0 ? member : join(json_separator(','), member));
  }

  void add(uint32_t from, uint32_t to, Expr over) { network_.add(from, to, std::move(over)); }

  const SchemaFacts &facts_;
  uint32_t n_names_;
  bool counts_exactly_ = false;  // n_counted_ is the most there may be; else as many or more
  uint32_t n_counted_ = 0;
  grammar::Network network_;
};

Expr SchemaCompiler::object_of(const SchemaFacts &facts, const Schemas &schemas) {
  if (facts.n_members_max < facts.n_members_min) return grammar::choice({});
  if (facts.others_may_come && facts.n_members_min > facts.names.size() + 1)
    refuse(schemas, "minProperties above the number of named properties is not supported");
  MemberNetwork members(facts);
  grow(2 * uint64_t{members.n_nodes()});
  constexpr uint32_t k_most_nodes = 100'000;
  if (members.n_nodes() > k_most_nodes)
    refuse(schemas, "minProperties and maxProperties are too large for so many properties");
  for (uint32_t i = 0; i < facts.names.size(); ++i) {
    const std::string &name = facts.names[i];
    members.add_name(i, facts.required.contains(name),
                     join(json_exact_string(name), json_separator(':'),
                          call(member_set(document_, schemas, name))));
  }
  if (facts.others_may_come) {
    Expr key = facts.names.empty()
                   ? join(grammar::text("\""), grammar::repeat(grammar::call(any_char_), 0),
                          grammar::text("\""))
                   : json_string_of(all_texts_but(facts.names));
    members.add_others(
        join(std::move(key), json_separator(':'), call(other_member_set(document_, schemas))));
  }
  return join(grammar::text("{"), std::move(members).finish(), grammar::text("}"));
}

}  // namespace

Expected<grammar::Rules> json_schema_rules(std::string_view schema) {
  try {
    return SchemaCompiler(schema).compile();
  } catch (const SchemaRefusal &refusal) {
    return fail(ErrorCode::invalid_argument, fmt::format("json_schema: {}", refusal.what()));
  }
}

}  // namespace patchbay
