#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "arch/tiny_model.h"
#include "base/temp_dir.h"

namespace patchbay {

constexpr int32_t k_end = 47;

/// A tiny llama whose tokens 0..46 are written as letters and whose token 47 ends the text.
inline std::filesystem::path write_spelled_model(const TempDir &dir, const std::string &name) {
  GgufBuilder file = build_tiny_model(tiny_llama());
  std::vector<std::string> tokens;
  std::vector<int32_t> types(48, 1);
  for (int i = 0; i < k_end; ++i) tokens.push_back(std::string(1, static_cast<char>('A' + i)));
  tokens.push_back("<|end|>");
  types[k_end] = 3;
  file.set("tokenizer.ggml.model", "gpt2")
      .set("tokenizer.ggml.pre", "default")
      .set_array("tokenizer.ggml.tokens", tokens)
      .set_array("tokenizer.ggml.token_type", types)
      .set_array("tokenizer.ggml.merges", std::vector<std::string>{})
      .set("tokenizer.ggml.eos_token_id", static_cast<uint32_t>(k_end));
  return dir.write(name, file.bytes());
}

}  // namespace patchbay
