#include "lora/adaptable.h"

#include "base/error.h"

namespace patchbay {

void check_adaptable(const std::string &path, const std::string &item, const AdaptableUse &use) {
  if (!use.rotated_table) return;
  throw LoadError({.path = path,
                   .item = item,
                   .problem = "targets a prism.hadamard latent lookup table",
                   .wanted = "a weight that the base does not store as a folded table",
                   .found = use.name});
}

}  // namespace patchbay
