#include "apps/inspect_metadata.h"

#include "apps/inspect_pairs.h"
#include "gguf/gguf_value.h"

namespace patchbay {
namespace {

using nlohmann::ordered_json;

ordered_json value_json(const std::string &path, const GgufEntry &entry) {
  switch (entry.type) {
    case GgufType::string:
      return value_string(path, entry);
    case GgufType::boolean:
      return value_bool(path, entry);
    case GgufType::f32:
      return readable(static_cast<float>(value_f64(path, entry)));
    case GgufType::f64:
      return value_f64(path, entry);
    case GgufType::i8:
    case GgufType::i16:
    case GgufType::i32:
    case GgufType::i64:
      return value_i64(path, entry);
    default:
      return value_u64(path, entry);
  }
}

}  // namespace

ordered_json metadata_json(const GgufFile &file) {
  ordered_json json = ordered_json::object();
  for (const auto &entry : file.entries()) {
    ordered_json &shown = json[entry.key];
    shown["type"] = type_name(entry);
    if (entry.type == GgufType::array) {
      shown["n_items"] = entry.n_items;
    } else {
      shown["value"] = value_json(file.path(), entry);
    }
  }
  return json;
}

std::optional<std::string> text_of(const GgufFile &file, std::string_view key) {
  const auto *entry = file.find_entry(key);
  if (entry == nullptr || entry->type != GgufType::string) return std::nullopt;
  return std::string(value_string(file.path(), *entry));
}

}  // namespace patchbay
