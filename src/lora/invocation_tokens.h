#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace patchbay {

/// The tokens that begin an aLoRA's turn (arXiv 2504.12397), as an adapter's file states them under
/// `key`. `path` and `key` are for messages. Throws LoadError for an id that is not below n_vocab.
[[nodiscard]] std::vector<int32_t> check_invocation_tokens(const std::string &path, const char *key,
                                                           std::span<const int64_t> ids,
                                                           uint32_t n_vocab);

}  // namespace patchbay
