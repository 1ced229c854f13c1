#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/sha256.h"
#include "lora/adapter_registry.h"

namespace patchbay {

/// On whose behalf a request comes, and what they may do.
struct Principal {
  std::string name{};
  std::string tenant{};  ///< whose share of the machine and whose prefixes
  bool is_admin = true;
  std::vector<std::string> adapters{"*"};  ///< names that may be worn; "*" alone: all

  /// And whether lists show it.
  [[nodiscard]] bool may_wear(std::string_view adapter) const;
};

/// The keys that the server knows. Keys themselves are not kept, only their digests. Any thread.
class KeyRing {
 public:
  /// A key that may do everything. Throws std::invalid_argument: it is empty.
  void add_admin(std::string_view key);
  /// A key a line: JSON {"key", "name", "admin": false, "adapters": ["*"], "tenant"}, where the
  /// tenant is the name when there is none; or the key alone, which may do everything, as
  /// llama-server has it. Lines that begin with # are comments. Throws LoadError that names file
  /// and line, and never a key.
  void add_file(const std::filesystem::path &path);

  [[nodiscard]] bool empty() const { return keys_.empty(); }

  /// Who holds the key of this Authorization header ("Bearer KEY") or of `x_api_key`. Without keys
  /// everybody is an administrator. Takes the same time whatever key is given. Refused:
  /// unauthenticated.
  [[nodiscard]] Expected<Principal> authenticate(std::optional<std::string_view> authorization,
                                                 std::optional<std::string_view> x_api_key) const;

 private:
  struct Key {
    Sha256Digest digest{};
    Principal principal;
  };

  std::vector<Key> keys_;
};

}  // namespace patchbay
