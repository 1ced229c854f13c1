#include <algorithm>
#include <array>
#include <numeric>
#include <unordered_map>

#include "jinja/attribute_path.h"
#include "jinja/compare.h"
#include "jinja/error.h"
#include "jinja/filters.h"
#include "jinja/objects.h"
#include "jinja/text.h"

namespace patchbay::jinja {

namespace {

Value value_or_none(const Bound &bound, size_t i) {
  return bound.find(i) == nullptr ? Value::none() : bound.at(i);
}

/// Positions of `keys` in ascending order, equal ones as they stand; descending with `reverse`.
std::vector<size_t> sorted_positions(Runtime &runtime, const std::vector<Value> &keys,
                                     bool reverse) {
  std::vector<size_t> positions(keys.size());
  std::iota(positions.begin(), positions.end(), size_t{0});
  if (reverse) std::reverse(positions.begin(), positions.end());
  std::stable_sort(positions.begin(), positions.end(), [&](size_t left, size_t right) {
    runtime.step();
    runtime.read(std::min(keys[left].extent().size_bytes, keys[right].extent().size_bytes));
    return is_ordered(keys[left], Order::less, keys[right]);
  });
  if (reverse) std::reverse(positions.begin(), positions.end());
  return positions;
}

std::vector<Value> at_positions(const std::vector<Value> &items,
                                const std::vector<size_t> &positions) {
  std::vector<Value> sorted;
  sorted.reserve(items.size());
  for (const size_t i : positions) sorted.push_back(items[i]);
  return sorted;
}

Value sort(Runtime &runtime, const Value &self, const Arguments &arguments) {
  const Bound bound(arguments, {"sort", {"reverse", "case_sensitive", "attribute"}});
  const bool with_case = bound.truth(1, false);
  const Value attribute = value_or_none(bound, 2);
  std::vector<AttributePath> paths;
  if (const std::string *names = attribute.as_string()) {
    for (const std::string_view name : split_at(*names, ",", -1)) {
      paths.emplace_back(Value::string(std::string(name)));
    }
  } else {
    paths.emplace_back(attribute);
  }
  const auto items = collect(runtime, self);
  std::vector<Value> keys;
  for (const Value &item : items) {
    std::vector<Value> parts;
    for (const AttributePath &path : paths) {
      const Value part = path.of(item);
      parts.push_back(with_case ? part : without_case(part));
    }
    keys.push_back(Value::list(std::move(parts)));
  }
  return Value::list(at_positions(items, sorted_positions(runtime, keys, bound.truth(0, false))));
}

Value sort_dict(Runtime &runtime, const Value &self, const Arguments &arguments) {
  const Bound bound(arguments, {"dictsort", {"case_sensitive", "by", "reverse"}});
  const std::string by = bound.find(1) == nullptr ? "key" : bound.text(1);
  if (by != "key" && by != "value") {
    throw RenderError(Fault::other, "You can only sort by either \"key\" or \"value\"");
  }
  refuse_undefined(self);
  const Dict *dict = self.as_dict();
  if (dict == nullptr) type_error(quoted_type(self) + " object has no attribute 'items'");
  std::vector<Value> items;
  std::vector<Value> keys;
  for (const auto &[key, value] : dict->entries()) {
    const Value &sorted_by = by == "key" ? key : value;
    keys.push_back(bound.truth(0, false) ? sorted_by : without_case(sorted_by));
    items.push_back(Value::tuple({key, value}));
  }
  return Value::list(at_positions(items, sorted_positions(runtime, keys, bound.truth(2, false))));
}

template <Order order>
Value extreme(Runtime &runtime, const Value &self, const Arguments &arguments) {
  const Bound bound(arguments, {"min", {"case_sensitive", "attribute"}});
  const bool with_case = bound.truth(0, false);
  const AttributePath path(value_or_none(bound, 1));
  const auto items = collect(runtime, self);
  if (items.empty()) return Value::undefined("No aggregated item, sequence was empty.");
  std::optional<Value> best;
  std::optional<Value> best_key;
  for (const Value &item : items) {
    const Value part = path.of(item);
    Value key = with_case ? part : without_case(part);
    runtime.read(key);
    if (best && !is_ordered(key, order, *best_key)) continue;
    best = item;
    best_key = std::move(key);
  }
  return *best;
}

/// Keys that came already.
class SeenKeys {
 public:
  /// Whether `key` is new; then it is kept. Throws RenderError when it is unhashable.
  bool add(const Value &key) {
    const size_t hash = hash_of(key);
    const auto [begin, end] = keys_.equal_range(hash);
    const bool is_known = std::any_of(
        begin, end, [&](const auto &entry) { return is_equal_item(entry.second, key); });
    if (!is_known) keys_.emplace(hash, key);
    return !is_known;
  }

 private:
  std::unordered_multimap<size_t, Value> keys_;
};

Value unique(Runtime &runtime, const Value &self, const Arguments &arguments) {
  const Bound bound(arguments, {"unique", {"case_sensitive", "attribute"}});
  const bool with_case = bound.truth(0, false);
  Iterator source;
  return make_generator(
      runtime,
      [&runtime, self, with_case, source, path = AttributePath(value_or_none(bound, 1)),
       seen = std::make_shared<SeenKeys>()]() mutable -> std::optional<Value> {
        if (!source) source = iterate(self);
        while (auto item = source()) {
          runtime.step();
          const Value part = path.of(*item);
          const Value key = with_case ? part : without_case(part);
          runtime.read(key);
          if (seen->add(key)) return item;
        }
        return std::nullopt;
      },
      self, arguments);
}

Value group_by(Runtime &runtime, const Value &self, const Arguments &arguments) {
  const Bound bound(arguments, {"groupby", {"attribute", "default", "case_sensitive"}, 1});
  const AttributePath path(bound.at(0));
  const bool with_case = bound.truth(2, false);
  const auto items = collect(runtime, self);
  std::vector<Value> keys;
  for (const Value &item : items) {
    const Value key = path.of(item, bound.find(1));
    keys.push_back(with_case ? key : without_case(key));
  }
  const auto positions = sorted_positions(runtime, keys, false);
  std::vector<Value> groups;
  for (size_t begin = 0; begin < positions.size();) {
    size_t end = begin;
    std::vector<Value> members;
    while (end < positions.size() && is_equal_item(keys[positions[end]], keys[positions[begin]])) {
      members.push_back(items[positions[end++]]);
    }
    // Its name is as the first of them spells it.
    const Value grouper = path.of(members.front(), bound.find(1));
    groups.push_back(Value::group(grouper, Value::list(std::move(members))));
    begin = end;
  }
  return Value::list(std::move(groups));
}

constexpr std::array<NamedFilter, 6> k_filters{{{"dictsort", sort_dict},
                                                {"groupby", group_by},
                                                {"max", extreme<Order::greater>},
                                                {"min", extreme<Order::less>},
                                                {"sort", sort},
                                                {"unique", unique}}};

}  // namespace

std::span<const NamedFilter> order_filters() { return k_filters; }

}  // namespace patchbay::jinja
