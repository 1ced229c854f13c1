#include "lora/adapter.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/regular_file.h"
#include "gguf/file_kind.h"
#include "lora/gguf_adapter.h"
#include "lora/peft_adapter.h"
#include "lora/peft_folder.h"

namespace patchbay {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const fs::path &path, std::string problem, std::string hint) {
  throw LoadError({.path = path.string(), .problem = std::move(problem), .hint = std::move(hint)});
}

FileKind kind_of(const fs::path &path) {
  const auto file = RegularFile::open(path);
  std::array<std::byte, k_file_kind_bytes> start;
  const auto bytes = std::span(start).first(std::min(start.size(), file.size_bytes()));
  file.read(bytes);
  return guess_file_kind(bytes);
}

/// A file that is not part of a PEFT folder: a GGUF adapter, or a mistake that can be named.
std::shared_ptr<Adapter> load_file(const fs::path &path, const BaseInfo &base,
                                   const AdapterLoadOptions &options) {
  const auto kind = kind_of(path);
  if (kind == FileKind::safetensors) {
    refuse(path, "is a safetensors file of which nothing says how to read it",
           "a PEFT adapter is given as its folder, with adapter_config.json in it");
  }
  if (kind == FileKind::zip || kind == FileKind::pickle) {
    refuse(path, "looks like a pickle file, which is never read", k_recipe_for_pickle);
  }
  return load_gguf_adapter(path, base, options);
}

}  // namespace

const FactorPair *Adapter::find(std::string_view target) const {
  const auto found = std::lower_bound(
      pairs.begin(), pairs.end(), target,
      [](const FactorPair &pair, std::string_view wanted) { return pair.target < wanted; });
  return found != pairs.end() && found->target == target ? &*found : nullptr;
}

std::shared_ptr<const Adapter> load_adapter(const fs::path &path, const BaseInfo &base,
                                            std::string name, const AdapterLoadOptions &options) {
  const auto folder = find_peft_folder(path);
  auto adapter =
      folder ? load_peft_adapter(*folder, base, options) : load_file(path, base, options);
  if (!name.empty()) adapter->name = std::move(name);
  return adapter;
}

}  // namespace patchbay
