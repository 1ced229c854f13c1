#include "apps/model_files.h"

#include <cstdlib>
#include <filesystem>

#include "apps/progress_bar.h"
#include "base/error.h"
#include "base/log.h"
#include "lora/adapter.h"

namespace patchbay {
namespace {

namespace fs = std::filesystem;

constexpr const char *k_file_name = "SmolLM2-135M-Instruct.Q4_1.gguf";

std::vector<fs::path> default_model_places() {
  std::vector<fs::path> places;
  if (const char *data = std::getenv("XDG_DATA_HOME"); data != nullptr && *data != '\0') {
    places.push_back(fs::path(data) / "patchbay" / "models" / k_file_name);
  } else if (const char *home = std::getenv("HOME"); home != nullptr && *home != '\0') {
    places.push_back(fs::path(home) / ".local/share/patchbay/models" / k_file_name);
  }
  places.push_back(fs::path(PATCHBAY_MODEL_DIR) / k_file_name);
  return places;
}

}  // namespace

std::string default_model() {
  if (const char *chosen = std::getenv("PATCHBAY_MODEL"); chosen != nullptr && *chosen != '\0')
    return chosen;
  std::string looked;
  for (const auto &place : default_model_places()) {
    std::error_code ignored;
    if (fs::exists(place, ignored)) return place.string();
    looked += (looked.empty() ? "" : ", ") + place.string();
  }
  throw LoadError({.problem = "no model given with -m and no default model found",
                   .hint = "scripts/setup fetches one; looked at " + looked,
                   .code = ErrorCode::not_found});
}

std::shared_ptr<const Model> open_model(const ModelArguments &arguments) {
  const std::string path = arguments.model.empty() ? default_model() : arguments.model;
  ProgressBar bar("loading " + fs::path(path).filename().string());
  return Model::load(path, {.repack = arguments.repack,
                            .own_products = arguments.own_products,
                            .adapters = arguments.adapters,
                            .progress = [&](size_t done, size_t all) { bar.show(done, all); }});
}

std::vector<WornAdapter> open_adapters(const Model &model, const std::vector<LoraItem> &items) {
  std::vector<WornAdapter> adapters;
  for (const auto &item : items) {
    adapters.push_back({model.load_adapter(item.path, item.name), item.strength});
    if (item.strength == 0) {
      log().warn("{}: cannot change the output at strength 0", item.path);
    }
    for (const auto &note : adapters.back().adapter->notes) log().warn("{}: {}", item.path, note);
  }
  return adapters;
}

}  // namespace patchbay
