#include "lora/adapter.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/mapped_file.h"
#include "gguf/file_kind.h"
#include "lora/adapter_summary.h"
#include "lora/gguf_adapter.h"
#include "lora/peft_adapter.h"

namespace patchbay {
namespace {

namespace fs = std::filesystem;

constexpr const char *k_config = "adapter_config.json";
constexpr const char *k_weights = "adapter_model.safetensors";

[[noreturn]] void refuse(const fs::path &path, std::string problem, std::string hint = {}) {
  throw LoadError({.path = path.string(), .problem = std::move(problem), .hint = std::move(hint)});
}

bool has_file(const fs::path &folder, const char *name) {
  std::error_code ignored;
  return fs::is_regular_file(folder / name, ignored);
}

/// Sub-folders that are adapters themselves: checkpoints of a trainer, or adapters with a name.
std::vector<std::string> adapter_folders(const fs::path &folder) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (has_file(at->path(), k_config)) found.push_back(at->path().filename().string());
  }
  std::sort(found.begin(), found.end());
  return found;
}

[[noreturn]] void refuse_folder(const fs::path &folder) {
  if (has_file(folder, "adapters.safetensors")) {
    refuse(folder, "is an MLX adapter, which is not supported",
           "convert it to PEFT: transpose lora_a and lora_b, and rename them");
  }
  if (has_file(folder, k_weights) || has_file(folder, "adapter_model.bin")) {
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

std::shared_ptr<const Adapter> load_folder(const fs::path &folder, const BaseInfo &base) {
  if (!has_file(folder, k_config)) refuse_folder(folder);
  return load_peft_adapter(folder, base);
}

/// A file that is not part of a PEFT folder: a GGUF adapter, or a mistake that can be named.
std::shared_ptr<const Adapter> load_file(const fs::path &path, const BaseInfo &base) {
  const auto kind = guess_file_kind(MappedFile::open(path).bytes());
  if (kind == FileKind::safetensors) {
    refuse(path, "is a safetensors file of which nothing says how to read it",
           "a PEFT adapter is given as its folder, with adapter_config.json in it");
  }
  if (kind == FileKind::zip || kind == FileKind::pickle) {
    refuse(path, "looks like a pickle file, which is never read", k_recipe_for_pickle);
  }
  return load_gguf_adapter(path, base);
}

}  // namespace

const FactorPair *Adapter::find(std::string_view target) const {
  const auto found = std::lower_bound(
      pairs.begin(), pairs.end(), target,
      [](const FactorPair &pair, std::string_view wanted) { return pair.target < wanted; });
  return found != pairs.end() && found->target == target ? &*found : nullptr;
}

std::shared_ptr<const Adapter> load_adapter(const fs::path &path, const BaseInfo &base) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return load_folder(path, base);
  const auto folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  const bool is_part_of_folder = path.filename() == k_config || path.filename() == k_weights;
  if (is_part_of_folder && has_file(folder, path.filename().c_str())) {
    return load_folder(folder, base);
  }
  return load_file(path, base);
}

}  // namespace patchbay
