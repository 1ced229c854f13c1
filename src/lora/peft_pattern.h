#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lora/literal_keys.h"

namespace patchbay {

/// rank_pattern or alpha_pattern of an adapter_config.json: keys in file order, the first that
/// matches a module decides. A key is a Python regular expression that must cover whole dotted
/// components at the end of the module's path, as in `re.match(r"(.*\.)?(KEY)$", module)` of PEFT.
class PatternTable {
 public:
  /// `path` and `option` are for messages only.
  PatternTable(std::string path, std::string option)
      : path_(std::move(path)), option_(std::move(option)) {}

  /// Throws LoadError naming the key when it is no regular expression.
  void add(std::string key, double value);

  /// The value for `module`, nullopt when no key matches. Throws LoadError when a key takes too
  /// long to match.
  [[nodiscard]] std::optional<double> find(std::string_view module) const;

  /// A warning when two keys with different values match `module`, else nullopt. PEFT sorts the
  /// keys when it saves, so the order in the file may not be the one of the training.
  [[nodiscard]] std::optional<std::string> ambiguity(std::string_view module) const;

 private:
  struct Regex;
  struct Matcher;
  struct Entry {
    std::string key;
    double value;
    std::shared_ptr<const Regex> regex;
  };

  [[nodiscard]] bool matches(const Entry &entry, std::string_view module,
                             const Matcher &matcher) const;
  /// Calls `visit` with the entries that match, in file order, until it returns false.
  template <class Visit>
  void visit_matches(std::string_view module, Visit visit) const;

  std::string path_;
  std::string option_;
  std::vector<Entry> entries_;
  LiteralKeys literals_;         // of the entries whose keys are literal
  std::vector<size_t> regexes_;  // indices of the others
};

}  // namespace patchbay
