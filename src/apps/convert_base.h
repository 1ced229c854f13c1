#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "engine/loaded_model.h"
#include "model/base_info.h"

namespace patchbay {

/// A base model as far as converting adapters has to know it.
struct ConversionBase {
  BaseInfo info;
  std::shared_ptr<const LoadedModel> model;  ///< keeps what `info` views; null: nothing
};

/// Reads a GGUF model, or a Hugging Face folder named by itself or by its config.json. Of families
/// whose graph is here it is the graph that says what can be adapted, of others the table of names.
/// Throws LoadError.
[[nodiscard]] ConversionBase read_conversion_base(const std::filesystem::path &path);

/// The base that a PEFT folder names, where that is a folder on this machine. Throws UsageError
/// when it is not.
[[nodiscard]] std::string base_named_by(const std::filesystem::path &adapter);

}  // namespace patchbay
