#include "lora/dotted_path.h"

namespace patchbay {

bool ends_with_components(std::string_view path, std::string_view suffix) {
  if (path == suffix) return true;
  return path.size() > suffix.size() && path.ends_with(suffix) &&
         path[path.size() - suffix.size() - 1] == '.';
}

std::vector<std::string_view> dotted_suffixes(std::string_view path) {
  std::vector<std::string_view> suffixes{path};
  for (size_t i = 0; i < path.size(); ++i) {
    if (path[i] == '.') suffixes.push_back(path.substr(i + 1));
  }
  return suffixes;
}

}  // namespace patchbay
