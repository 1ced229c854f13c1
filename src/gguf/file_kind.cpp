#include "gguf/file_kind.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "gguf/byte_reader.h"

namespace patchbay {
namespace {

std::string_view first_bytes(std::span<const std::byte> bytes, size_t n) {
  return as_text(bytes.first(std::min(n, bytes.size())));
}

bool looks_like_safetensors(std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(uint64_t) + 1) return false;
  const auto n_header = load_little_endian<uint64_t>(bytes);
  return n_header <= k_max_safetensors_header_bytes && bytes[sizeof(uint64_t)] == std::byte{'{'};
}

/// Protocol 2 and later begin with the opcode PROTO and the protocol number; torch.save writes 2.
bool looks_like_pickle(std::span<const std::byte> bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x80} && bytes[1] >= std::byte{2} &&
         bytes[1] <= std::byte{5};
}

/// The magics "ggml", "ggmf", "ggjt" and "ggla" were written as little-endian integers.
bool looks_like_legacy_ggml(std::string_view start) {
  constexpr std::array<std::string_view, 4> magics{"lmgg", "fmgg", "tjgg", "algg"};
  return std::ranges::any_of(magics, [&](auto magic) { return start.starts_with(magic); });
}

bool looks_like_html(std::string_view start) {
  start.remove_prefix(std::min(start.find_first_not_of(" \t\r\n"), start.size()));
  constexpr std::array<std::string_view, 4> openings{"<!DOCTYPE", "<!doctype", "<html", "<HTML"};
  return std::ranges::any_of(openings, [&](auto opening) { return start.starts_with(opening); });
}

bool is_text_byte(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte == '\t' || byte == '\n' || byte == '\r' || (byte >= 0x20 && byte != 0x7f);
}

}  // namespace

FileKind guess_file_kind(std::span<const std::byte> bytes) {
  const auto start = first_bytes(bytes, k_file_kind_bytes);
  if (start.empty()) return FileKind::unknown;
  if (start.starts_with("GGUF")) return FileKind::gguf;
  // Before the others: a header length may happen to begin with their magic bytes.
  if (looks_like_safetensors(bytes)) return FileKind::safetensors;
  if (looks_like_legacy_ggml(start)) return FileKind::ggml_legacy;
  if (start.starts_with("PK\x03\x04")) return FileKind::zip;
  if (looks_like_pickle(bytes)) return FileKind::pickle;
  if (start.starts_with("version https://git-lfs")) return FileKind::git_lfs_pointer;
  if (looks_like_html(start)) return FileKind::html;
  if (std::ranges::all_of(start, is_text_byte)) return FileKind::text;
  return FileKind::unknown;
}

std::string_view describe(FileKind kind) {
  switch (kind) {
    case FileKind::unknown:
      return "a file of unknown kind";
    case FileKind::gguf:
      return "a GGUF file";
    case FileKind::ggml_legacy:
      return "an old GGML file (convert the original model to GGUF)";
    case FileKind::safetensors:
      return "a safetensors file";
    case FileKind::zip:
      return "a zip archive or a PyTorch checkpoint (convert it to safetensors)";
    case FileKind::pickle:
      return "a Python pickle (convert it to safetensors)";
    case FileKind::git_lfs_pointer:
      return "a Git LFS pointer (fetch the file itself with `git lfs pull`)";
    case FileKind::html:
      return "a web page (was the download a login or error page?)";
    case FileKind::text:
      return "a text file";
  }
  return "a file of unknown kind";
}

}  // namespace patchbay
