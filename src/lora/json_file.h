#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace patchbay {

/// A JSON object read from a file of people's making, with typed access that never converts in
/// silence. Key order is kept. Immutable; any thread.
class JsonFile {
 public:
  /// Throws LoadError: larger than 16 MiB, not JSON, not an object, nested too deeply, too many
  /// keys.
  [[nodiscard]] static JsonFile open(const std::filesystem::path &path);

  [[nodiscard]] const std::string &path() const { return path_; }
  [[nodiscard]] const nlohmann::ordered_json &root() const { return root_; }

  /// The value of `key`; nullptr when it is absent or null.
  [[nodiscard]] const nlohmann::ordered_json *find(const std::string &key) const;

  // Absent and null give nullopt, another type a LoadError naming key, wanted and found type.
  [[nodiscard]] std::optional<bool> get_bool(const std::string &key) const;
  [[nodiscard]] std::optional<std::string> get_string(const std::string &key) const;
  [[nodiscard]] std::optional<int64_t> get_integer(const std::string &key) const;
  [[nodiscard]] std::optional<double> get_number(const std::string &key) const;
  [[nodiscard]] std::optional<std::vector<std::string>> get_strings(const std::string &key) const;
  [[nodiscard]] std::optional<std::vector<int64_t>> get_integers(const std::string &key) const;

  [[noreturn]] void refuse_type(const std::string &key, const char *wanted) const;

 private:
  std::string path_;
  nlohmann::ordered_json root_;
};

/// An integer that fits 64 bits; nullopt for everything else, true and 1.0 included.
[[nodiscard]] std::optional<int64_t> as_integer(const nlohmann::ordered_json &value);

/// A finite number.
[[nodiscard]] std::optional<double> as_number(const nlohmann::ordered_json &value);

/// null, false, 0, "", [] and {}: what Python takes as "not set".
[[nodiscard]] bool is_unset(const nlohmann::ordered_json &value);

/// `value` on one line and not longer than a message can bear.
[[nodiscard]] std::string shown(const nlohmann::ordered_json &value);

}  // namespace patchbay
