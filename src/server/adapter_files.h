#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "lora/adapter.h"
#include "patchbay/model.hpp"

namespace patchbay {

/// The folders from which adapters may be loaded over HTTP. Nothing outside of them is opened,
/// whatever links lead there. Any thread.
class AdapterFiles {
 public:
  /// Throws LoadError: a folder is none. Without folders loading over HTTP is off.
  explicit AdapterFiles(const std::vector<std::filesystem::path> &folders);

  [[nodiscard]] bool empty() const { return folders_.empty(); }

  /// The real path of one that a request names, absolute or inside of a folder. Refused:
  /// permission_denied (outside, or there are no folders), not_found.
  [[nodiscard]] Expected<std::filesystem::path> resolve(std::string_view path) const;

  /// Where an adapter of this name lies, as a folder or with ".gguf" behind it. Refused: not_found.
  [[nodiscard]] Expected<std::filesystem::path> find(std::string_view name) const;

 private:
  std::vector<std::filesystem::path> folders_;  // real paths
};

}  // namespace patchbay
