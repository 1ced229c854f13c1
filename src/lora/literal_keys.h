#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace patchbay {

/// Pattern keys of letters, digits, `_`, `-` and `.`, which most files have and nothing else. Their
/// matches are looked up instead of trying each key on each module. As in a regular expression, a
/// dot of a key stands for any character.
class LiteralKeys {
 public:
  [[nodiscard]] static bool is_literal(std::string_view key);
  /// Whether find() answers for this module: printable ASCII, so that a character is a byte and a
  /// dot matches every one.
  [[nodiscard]] static bool can_look_up(std::string_view module);

  /// REQUIRES: is_literal(key). `id` is what find() gives back.
  void add(std::string_view key, size_t id);

  /// The ids of all keys that match whole dotted components at the end of `module`, ascending.
  /// REQUIRES: can_look_up(module).
  [[nodiscard]] std::vector<size_t> find(std::string_view module) const;

 private:
  using Dots = std::vector<size_t>;  // positions

  std::map<size_t, std::set<Dots>> dots_by_size_;  // of the keys of each length
  std::unordered_map<std::string, std::vector<size_t>> ids_;
};

}  // namespace patchbay
