#include "gguf/gguf_parse.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <string>
#include <string_view>

#include "base/error.h"
#include "gguf/file_kind.h"
#include "gguf/gguf_value.h"

namespace patchbay {
namespace {

constexpr std::string_view k_magic = "GGUF";
constexpr uint64_t k_default_alignment = 32;

// The shortest entry: key length, a key of one character, type, a value of one byte.
constexpr size_t k_min_entry_bytes = 8 + 1 + 4 + 1;
// The shortest tensor description: name length, a name of one character, n_dims, one dimension,
// type, offset.
constexpr size_t k_min_tensor_bytes = 8 + 1 + 4 + 8 + 4 + 8;

void check_magic(const MappedFile &file) {
  const auto bytes = file.bytes();
  if (bytes.empty()) throw LoadError({.path = file.path(), .problem = "is empty"});
  if (guess_file_kind(bytes) == FileKind::gguf) return;
  if (k_magic.starts_with(as_text(bytes))) {
    throw LoadError({.path = file.path(), .problem = "is truncated within the first four bytes"});
  }
  throw LoadError({.path = file.path(),
                   .problem = fmt::format("is not a GGUF file: it looks like {}",
                                          describe(guess_file_kind(bytes)))});
}

uint32_t read_version(ByteReader &in) {
  const auto version = in.read<uint32_t>("version");
  if (version == 2 || version == 3) return version;
  if (version != 0 && (version & 0xffffU) == 0) {
    throw LoadError({.path = in.path(),
                     .problem = "is a big-endian GGUF file, which cannot be read",
                     .hint = "convert it with gguf-convert-endian"});
  }
  throw LoadError({.path = in.path(),
                   .item = "version",
                   .problem = "of the GGUF format is not supported",
                   .wanted = "2 or 3",
                   .found = std::to_string(version),
                   .hint = version == 1 ? "convert the original model again" : ""});
}

uint64_t alignment_of(const std::string &path, const std::vector<GgufEntry> &entries) {
  const auto entry = std::ranges::find(entries, "general.alignment", &GgufEntry::key);
  if (entry == entries.end()) return k_default_alignment;
  const uint64_t alignment = value_u64(path, *entry, UINT32_MAX);
  // The specification asks for a multiple of 8; ggml, and the rounding here, for a power of two.
  if (alignment < 8 || !std::has_single_bit(alignment)) {
    throw LoadError({.path = path,
                     .item = entry->key,
                     .problem = "is not an alignment",
                     .wanted = "a power of two, at least 8",
                     .found = std::to_string(alignment)});
  }
  return alignment;
}

}  // namespace

GgufContents parse_gguf(const MappedFile &file) {
  check_magic(file);
  ByteReader in(file.path(), file.bytes());
  in.take(k_magic.size(), "magic");
  GgufContents contents;
  contents.version = read_version(in);
  const auto n_tensors = in.read<uint64_t>("tensor count");
  const auto n_entries = in.read<uint64_t>("metadata count");
  in.expect_room(n_entries, k_min_entry_bytes, "metadata");
  contents.entries = read_gguf_entries(in, n_entries);
  in.expect_room(n_tensors, k_min_tensor_bytes, "tensor list");
  contents.tensors =
      read_gguf_tensors(in, n_tensors, alignment_of(file.path(), contents.entries), file);
  return contents;
}

}  // namespace patchbay
