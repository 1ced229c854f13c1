#include "server/adapter_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <system_error>

#include "lora/adapter_registry.h"

namespace patchbay {
namespace {

namespace fs = std::filesystem;

/// Without links and dots; nothing when it does not exist.
std::optional<fs::path> real_path(const fs::path &path) {
  std::error_code error;
  fs::path real = fs::canonical(path, error);
  if (error) return std::nullopt;
  return real;
}

bool lies_in(const fs::path &path, const fs::path &folder) {
  const auto [end, rest] = std::ranges::mismatch(folder, path);
  return end == folder.end();
}

}  // namespace

AdapterFiles::AdapterFiles(const std::vector<fs::path> &folders) {
  for (const auto &folder : folders) {
    auto real = real_path(folder);
    std::error_code error;
    if (!real || !fs::is_directory(*real, error)) {
      throw LoadError({.path = folder.string(),
                       .problem = "is no folder to load adapters from",
                       .code = ErrorCode::not_found});
    }
    folders_.push_back(std::move(*real));
  }
}

Expected<fs::path> AdapterFiles::resolve(std::string_view path) const {
  if (folders_.empty()) {
    return fail(ErrorCode::permission_denied,
                "loading adapters over HTTP is off: the server was started without --lora-dir");
  }
  if (path.empty() || path.find('\0') != std::string_view::npos)
    return fail(ErrorCode::invalid_argument, "the adapter's path is empty or holds a zero byte");
  bool is_outside = false;
  for (const auto &folder : folders_) {
    const auto real = real_path(folder / fs::path(path));  // an absolute one stays itself
    if (!real) continue;
    const auto contains = [&](const fs::path &one) { return lies_in(*real, one); };
    if (std::ranges::any_of(folders_, contains)) return *real;
    is_outside = true;
  }
  if (is_outside) {
    return fail(ErrorCode::permission_denied,
                fmt::format("{} lies outside of the folders of --lora-dir", path));
  }
  return fail(ErrorCode::not_found, fmt::format("{} is not there", path));
}

Expected<fs::path> AdapterFiles::find(std::string_view name) const {
  // One adapter has one name, or requests could have it loaded under any number of them.
  const bool is_plain = name == fs::path(name).lexically_normal() && !name.ends_with('/');
  if (!folders_.empty() && check_adapter_name(name) && is_plain && name != ".") {
    std::error_code ignored;
    if (auto found = resolve(name); found && fs::is_directory(*found, ignored)) return found;
    auto found = resolve(std::string(name) + ".gguf");
    if (found && !fs::is_directory(*found, ignored)) return found;
  }
  return fail(ErrorCode::not_found, fmt::format("there is no adapter '{}'", name));
}

}  // namespace patchbay
