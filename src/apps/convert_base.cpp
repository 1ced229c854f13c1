#include "apps/convert_base.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/commands.h"
#include "lora/base_of_config.h"
#include "lora/base_of_gguf.h"
#include "lora/json_file.h"
#include "lora/peft_folder.h"

namespace patchbay {
namespace {

namespace fs = std::filesystem;

constexpr const char *k_model_config = "config.json";

bool has_graph(const GgufFile &file) {
  const auto arch = file.require_string("general.architecture");
  return std::ranges::any_of(families(), [&](const Family &one) { return one.name == arch; });
}

bool is_adapter(const GgufFile &file) {
  return file.get_string("general.type").value_or("model") == "adapter";
}

/// What adapter_config.json says of the base; empty: nothing, or there is no such file.
std::string stated_base(const fs::path &adapter) {
  const auto folder = find_peft_folder(adapter);
  if (!folder) return {};
  return JsonFile::open(*folder / k_peft_config).get_string("base_model_name_or_path").value_or("");
}

}  // namespace

ConversionBase read_conversion_base(const fs::path &path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return {.info = base_of_config(path), .model = nullptr};
  if (path.filename() == k_model_config) {
    return {.info = base_of_config(path.has_parent_path() ? path.parent_path() : fs::path(".")),
            .model = nullptr};
  }
  const auto file = GgufFile::open(path);
  // family_of() names both mistakes: an adapter in place of a model, an unknown architecture.
  if (is_adapter(file)) (void)family_of(file);
  // No graph here reads joined weights.
  if (!has_graph(file) || has_joined_weights(file))
    return {.info = base_of_gguf(file), .model = nullptr};
  auto model = load_model(path, WeightOptions::as_stored());
  return {.info = model->info, .model = std::move(model)};
}

std::string base_named_by(const fs::path &adapter) {
  const auto stated = stated_base(adapter);
  std::error_code ignored;
  if (!stated.empty() && fs::is_regular_file(fs::path(stated) / k_model_config, ignored)) {
    return stated;
  }
  throw UsageError(fmt::format(
      "--base is required: give the base's GGUF file, or its Hugging Face folder (config.json is "
      "enough){}",
      stated.empty() ? "" : fmt::format("; the adapter names '{}'", stated)));
}

}  // namespace patchbay
