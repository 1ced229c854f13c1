#include "lora/peft_folder.h"

#include <algorithm>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace patchbay {
namespace {

namespace fs = std::filesystem;

constexpr const char *k_pickle_weights = "adapter_model.bin";
constexpr const char *k_mlx_weights = "adapters.safetensors";

[[noreturn]] void refuse(const fs::path &path, std::string problem, std::string hint = {}) {
  throw LoadError({.path = path.string(), .problem = std::move(problem), .hint = std::move(hint)});
}

bool has_file(const fs::path &folder, const fs::path &name) {
  std::error_code ignored;
  return fs::is_regular_file(folder / name, ignored);
}

/// Sub-folders that are adapters themselves: checkpoints of a trainer, or adapters with a name.
std::vector<std::string> adapter_folders(const fs::path &folder) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (has_file(at->path(), k_peft_config)) found.push_back(at->path().filename().string());
  }
  std::sort(found.begin(), found.end());
  return found;
}

[[noreturn]] void refuse_folder(const fs::path &folder) {
  if (has_file(folder, k_mlx_weights)) {
    refuse(folder, "is an MLX adapter, which is not supported",
           "convert it to PEFT: transpose lora_a and lora_b, and rename them");
  }
  if (has_file(folder, k_peft_weights) || has_file(folder, k_pickle_weights)) {
    refuse(folder, "is a PEFT folder without adapter_config.json, which says how to read it");
  }
  if (const auto inner = adapter_folders(folder); !inner.empty()) {
    refuse(folder, "is no adapter itself but holds some", "name one of: " + first_five(inner));
  }
  if (has_file(folder, "config.json")) {
    refuse(folder, "is the folder of a base model, not an adapter");
  }
  refuse(folder, "is a directory without adapter_config.json, so it is no PEFT adapter");
}

}  // namespace

std::optional<fs::path> find_peft_folder(const fs::path &path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    if (!has_file(path, k_peft_config)) refuse_folder(path);
    return path;
  }
  const bool is_part = path.filename() == k_peft_config || path.filename() == k_peft_weights;
  auto folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  if (!is_part || !has_file(folder, path.filename())) return std::nullopt;
  if (!has_file(folder, k_peft_config)) refuse_folder(folder);
  return folder;
}

SafetensorsFile open_peft_weights(const fs::path &folder) {
  const auto path = folder / k_peft_weights;
  std::error_code ignored;
  if (fs::exists(path, ignored)) return SafetensorsFile::open(path);
  const bool has_pickle = fs::exists(folder / k_pickle_weights, ignored);
  const bool has_mlx = fs::exists(folder / k_mlx_weights, ignored);
  throw LoadError({.path = folder.string(),
                   .item = k_peft_weights,
                   .problem = "is missing",
                   .found = has_pickle ? "adapter_model.bin, a pickle file, which is never read"
                            : has_mlx  ? "adapters.safetensors of MLX, which is not supported"
                                       : "",
                   .hint = has_pickle ? k_recipe_for_pickle : "",
                   .code = ErrorCode::not_found});
}

std::string folder_name(const fs::path &folder) {
  const auto full = fs::absolute(folder).lexically_normal();
  return (full.has_filename() ? full : full.parent_path()).filename().string();
}

}  // namespace patchbay
