#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace patchbay {

/// What the first bytes of a file look like; enough to tell a user that they named the wrong one.
enum class FileKind {
  unknown,
  gguf,
  ggml_legacy,
  safetensors,
  zip,
  pickle,
  git_lfs_pointer,
  html,
  text,
};

/// How many bytes are looked at.
inline constexpr size_t k_file_kind_bytes = 512;

/// Looks at the beginning only: a kind says nothing about whether the rest of the file is sound.
[[nodiscard]] FileKind guess_file_kind(std::span<const std::byte> bytes);

/// "a safetensors file": with article, and with what to do where that is known.
[[nodiscard]] std::string_view describe(FileKind kind);

/// Largest safetensors header in bytes; the limit of the reference implementation.
inline constexpr size_t k_max_safetensors_header_bytes = 100'000'000;

}  // namespace patchbay
