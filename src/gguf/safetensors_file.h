#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"

namespace patchbay {

/// One tensor of a safetensors file (github.com/huggingface/safetensors, "Format").
struct SafeTensor {
  std::string name;
  std::string dtype;  ///< as written: "F32", "F16", "BF16", "F64", "I64", "U8", "BOOL", ...
  std::vector<int64_t> shape;       ///< torch order, outermost first; empty for a scalar
  std::span<const std::byte> data;  ///< valid as long as the SafetensorsFile; may be unaligned

  [[nodiscard]] int64_t n_elements() const;
};

/// "[8, 64]", as torch writes it, for messages.
[[nodiscard]] std::string format_shape(const SafeTensor &tensor);

/// A safetensors file, copied into memory; header and offsets are checked when opened. Immutable;
/// any thread.
class SafetensorsFile {
 public:
  /// Throws LoadError: not safetensors (says so when it looks like a pickle, a zip or a GGUF),
  /// header longer than the file, bad or too deeply nested JSON, duplicate names, unknown dtype,
  /// sizes that do not match shape and dtype, data past the end, overlapping or with holes.
  [[nodiscard]] static SafetensorsFile open(const std::filesystem::path &path);

  [[nodiscard]] const std::string &path() const { return file_.path(); }
  [[nodiscard]] std::span<const SafeTensor> tensors() const {
    return tensors_;
  }  ///< sorted by name
  [[nodiscard]] const std::map<std::string, std::string> &metadata() const { return metadata_; }

 private:
  explicit SafetensorsFile(MappedFile file) : file_(std::move(file)) {}

  MappedFile file_;
  std::vector<SafeTensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace patchbay
