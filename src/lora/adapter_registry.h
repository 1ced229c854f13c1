#pragma once

#include <cstdint>
#include <ctime>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "lora/adapter.h"

namespace patchbay {

class ChatTemplates;

/// An adapter under the name by which requests choose it. Whoever holds a copy holds the adapter:
/// it stays whole until the last one is gone, whatever happens to the name.
struct RegisteredAdapter {
  int64_t id = 0;  ///< counts up in order of loading; never used again in a process
  std::string name;
  std::string path;
  std::shared_ptr<const Adapter> adapter;
  float strength = 1;  ///< where a request names the adapter and no strength
  std::shared_ptr<const ChatTemplates> chat{};  ///< of its own; null: none
  std::string chat_problem{};                   ///< why those that it has cannot be used
  std::time_t loaded_at = 0;                    ///< Unix time
};

/// One of the adapters that a request wears when it says nothing.
struct DefaultAdapter {
  int64_t id = 0;
  float strength = 0;
};

/// All adapters that requests may name, and the default set. Changes are at once and whole: a
/// request sees the names before or after one. Any thread.
class AdapterRegistry {
 public:
  /// Gives the adapter its id. Refused: invalid_argument, the name is taken or is none.
  Expected<RegisteredAdapter> add(RegisteredAdapter entry);
  /// The name, which keeps its id, means this adapter from now on; added when it is not there.
  Expected<RegisteredAdapter> replace(RegisteredAdapter entry);
  /// The name means nothing any more, and the adapter is in no default set. Refused: not_found.
  Expected<RegisteredAdapter> remove(std::string_view name);

  [[nodiscard]] std::optional<RegisteredAdapter> find(std::string_view name) const;
  [[nodiscard]] std::optional<RegisteredAdapter> find(int64_t id) const;
  /// In order of their ids.
  [[nodiscard]] std::vector<RegisteredAdapter> list() const;

  /// Strengths of the adapters named; all others become 0. Refused, and nothing has changed:
  /// invalid_argument, an id is unknown.
  Expected<void> set_defaults(const std::vector<DefaultAdapter> &defaults);
  /// 0: the adapter is not worn by default.
  [[nodiscard]] float default_strength(int64_t id) const;
  /// With their default strengths; those of 0 are left out.
  [[nodiscard]] std::vector<std::pair<RegisteredAdapter, float>> defaults() const;

 private:
  [[nodiscard]] std::vector<RegisteredAdapter>::iterator at(std::string_view name);

  mutable std::mutex mutex_;
  int64_t next_id_ = 0;
  std::vector<RegisteredAdapter> entries_;  // in order of ids
  std::vector<DefaultAdapter> defaults_;
};

/// What an adapter may be called on the wire: 1 to 256 bytes, no comma, no control characters, no
/// path that leaves the folder it is looked for in. Refused: invalid_argument.
[[nodiscard]] Expected<void> check_adapter_name(std::string_view name);

}  // namespace patchbay
