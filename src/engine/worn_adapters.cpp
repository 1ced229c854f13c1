#include "engine/worn_adapters.h"

#include <algorithm>

namespace patchbay {

std::vector<const Adapter *> worn_adapters(const Request &request) {
  std::vector<const Adapter *> worn;
  for (const auto &span : request.spans) {
    for (const auto &[adapter, strength] : span.adapters) {
      if (strength != 0) worn.push_back(adapter.get());
    }
  }
  const auto digest = [](const Adapter *adapter) -> const AdapterDigest & {
    return adapter->digest;
  };
  std::ranges::sort(worn, {}, digest);
  const auto twice = std::ranges::unique(worn, {}, digest);
  worn.erase(twice.begin(), twice.end());
  return worn;
}

AdapterKey adapter_key_of(const Request &request) {
  AdapterKey key;
  for (const Adapter *adapter : worn_adapters(request)) key.push_back(adapter->digest);
  return key;
}

}  // namespace patchbay
