#include "tokenizer/end_of_generation.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace patchbay {

namespace {

constexpr std::array<std::string_view, 15> k_spellings = {
    "<|im_end|>",             // ChatML: Qwen, SmolLM and many others
    "<|endoftext|>",          // GPT-2 and its kin
    "<|eot_id|>",             // Llama 3
    "<|eom_id|>",             // Llama 3, before a tool's answer
    "<|end_of_text|>",        // Llama 3, Granite
    "<|eot|>",                // Llama 4
    "<|eom|>",                // Llama 4
    "<end_of_turn>",          // Gemma
    "<|end|>",                // Phi-3
    "<|end_of_turn|>",        // OpenChat
    "<end_of_utterance>",     // SmolVLM
    "<|END_OF_TURN_TOKEN|>",  // Command R
    "<\xEF\xBD\x9C"
    "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>",  // DeepSeek, with U+FF5C and U+2581
    "<|return|>",                                          // gpt-oss
    "<|call|>",                                            // gpt-oss, before a tool's answer
};

}  // namespace

std::vector<int32_t> find_end_of_generation(const Vocab &vocab) {
  std::vector<int32_t> tokens;
  for (const std::string_view spelling : k_spellings) {
    const auto token = vocab.find(spelling);
    if (!token) continue;
    const TokenType type = vocab.type(*token);
    if (type == TokenType::control || type == TokenType::user_defined) tokens.push_back(*token);
  }
  std::sort(tokens.begin(), tokens.end());
  return tokens;
}

}  // namespace patchbay
