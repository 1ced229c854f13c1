#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lora/adapter.h"
#include "lora/gguf_adapter_writer.h"

namespace patchbay {

/// One tensor of adapter_model.safetensors.
struct PeftTensor {
  std::string name;
  std::vector<int64_t> shape;  ///< torch order
  Factor factor;               ///< F32, F16 or BF16
};

/// The content of a PEFT folder.
struct PeftContent {
  nlohmann::ordered_json config;  ///< adapter_config.json
  std::vector<PeftTensor> tensors;

  [[nodiscard]] size_t size_bytes() const;
};

/// The adapter as PEFT says it, under the names of today's transformers: what making the GGUF file
/// did to rows, experts and norms is undone. Throws LoadError for what PEFT cannot say: a target
/// without a name there, DoRA on some of the pairs only, keys that differ between heads.
[[nodiscard]] PeftContent make_peft(const Adapter &adapter, const BaseInfo &base);

/// Writes the folder. It appears under its name only when it is whole and on the disk; with
/// `overwrite`, the two files of a folder that is there are replaced one after the other. On any
/// failure nothing new is left. Throws LoadError.
void write_peft_folder(const std::filesystem::path &folder, const PeftContent &content,
                       bool overwrite, const WriteProgress &progress = {});

}  // namespace patchbay
