#include "tools/merge_metadata.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/text.h"

namespace patchbay {
namespace {

constexpr const char *k_name = "general.name";
constexpr const char *k_file_type = "general.file_type";
constexpr const char *k_quantization_version = "general.quantization_version";
constexpr const char *k_names = "patchbay.merged.names";
constexpr const char *k_digests = "patchbay.merged.digests";
constexpr const char *k_strengths = "patchbay.merged.strengths";
constexpr const char *k_combine = "patchbay.merged.combine";

/// llama.cpp's number for a file most of whose weights have this type (llama.h, llama_ftype).
std::optional<uint32_t> file_type(ggml_type type) {
  switch (type) {
    case GGML_TYPE_F32:
      return 0;
    case GGML_TYPE_F16:
      return 1;
    case GGML_TYPE_Q8_0:
      return 7;
    case GGML_TYPE_BF16:
      return 32;
    default:
      return std::nullopt;
  }
}

std::vector<std::string> strings_of(const GgufFile &file, const char *key) {
  const auto views = file.get_strings(key).value_or(std::vector<std::string_view>{});
  return {views.begin(), views.end()};
}

std::string merged_name(const GgufFile &base, std::span<const MergedAdapter> adapters) {
  std::string name =
      base.get_string(k_name).value_or(std::filesystem::path(base.path()).stem().string());
  for (const auto &[adapter, strength] : adapters) {
    name += fmt::format(" + {}", adapter->name);
    if (strength != 1) name += fmt::format(":{}", strength);
  }
  return name;
}

void set_type(GgufHead &head, const GgufFile &base, ggml_type type) {
  if (const auto number = file_type(type)) head.set_u32(k_file_type, *number);
  if (ggml_is_quantized(type) && !base.has(k_quantization_version))
    head.set_u32(k_quantization_version, GGML_QNT_VERSION);
}

void set_merged(GgufHead &head, const GgufFile &base, std::span<const MergedAdapter> adapters) {
  auto names = strings_of(base, k_names);
  auto digests = strings_of(base, k_digests);
  auto strengths = base.get_floats(k_strengths).value_or(std::vector<float>{});
  for (const auto &[adapter, strength] : adapters) {
    names.push_back(adapter->name);
    digests.push_back(hex(adapter->digest));
    strengths.push_back(strength);
  }
  head.set_strings(k_names, names);
  head.set_strings(k_digests, digests);
  head.set_floats(k_strengths, strengths);
}

}  // namespace

GgufHead merged_metadata(const GgufFile &base, std::span<const MergedAdapter> adapters,
                         std::optional<ggml_type> type, const std::string &combine) {
  GgufHead head;
  for (const auto &entry : base.entries()) {
    if (!entry.key.starts_with("split.")) head.set(entry);
  }
  head.set_string(k_name, merged_name(base, adapters));
  if (type) set_type(head, base, *type);
  set_merged(head, base, adapters);
  if (!combine.empty()) head.set_string(k_combine, combine);
  return head;
}

}  // namespace patchbay
