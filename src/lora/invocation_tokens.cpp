#include "lora/invocation_tokens.h"

#include <fmt/format.h>

#include "base/error.h"

namespace patchbay {

std::vector<int32_t> check_invocation_tokens(const std::string &path, const char *key,
                                             std::span<const int64_t> ids, uint32_t n_vocab) {
  std::vector<int32_t> tokens;
  for (const int64_t id : ids) {
    if (id < 0 || id >= static_cast<int64_t>(n_vocab)) {
      throw LoadError({.path = path,
                       .item = key,
                       .problem = "names a token that the base does not have",
                       .wanted = fmt::format("below {}", n_vocab),
                       .found = std::to_string(id)});
    }
    tokens.push_back(static_cast<int32_t>(id));
  }
  return tokens;
}

}  // namespace patchbay
