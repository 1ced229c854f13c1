#include "arch/family.h"

#include <fmt/format.h>

#include <array>

#include "base/error.h"

namespace patchbay {

std::span<const Family> families() {
  static const std::array all{k_llama, k_gemma3};
  return all;
}

const Family &family_of(const GgufFile &file) {
  if (file.get_string("general.type").value_or("model") == "adapter") {
    throw LoadError({.path = file.path(),
                     .problem = "is an adapter, not a model",
                     .hint = "give the base model with -m and this file with --lora"});
  }
  const std::string arch = file.require_string("general.architecture");
  std::string known;
  for (const auto &family : families()) {
    if (family.name == arch) return family;
    known += (known.empty() ? "" : ", ") + std::string(family.name);
  }
  throw LoadError({.path = file.path(),
                   .item = "general.architecture",
                   .problem = "is not supported",
                   .wanted = "one of " + known,
                   .found = arch});
}

}  // namespace patchbay
